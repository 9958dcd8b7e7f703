//! The places of a worker for runs at work, which its namespaces share.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// The places of a worker for runs at work. Of the namespaces that want a place, the one that has the fewest gets it; of
/// several with as few, the one that was given its last one the longest time ago. Clones share the places.
#[derive(Debug, Clone)]
pub struct JobPlaces(Arc<Mutex<PlacesState>>);

/// The places of a worker, as the runs of one namespace get them.
#[derive(Debug, Clone)]
pub struct NamespaceJobs {
    places: JobPlaces,
    namespace: Arc<str>,
}

/// A place for a run at work, which is free once this is dropped.
#[derive(Debug)]
pub struct JobPlace(NamespaceJobs);

#[derive(Debug)]
struct PlacesState {
    free: usize,
    /// The number of places that were given.
    given: u64,
    namespaces: BTreeMap<Arc<str>, NamespaceShare>,
    /// The oldest is the first.
    requests: VecDeque<PlaceRequest>,
}

/// The part of the places that a namespace has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct NamespaceShare {
    /// The places that it has.
    held: usize,
    /// The number of the last place that it was given; 0: none so far.
    last: u64,
}

#[derive(Debug)]
struct PlaceRequest {
    namespace: Arc<str>,
    answer: oneshot::Sender<JobPlace>,
}

impl JobPlaces {
    /// Creates so many places, all of them free.
    pub fn new(places: usize) -> Self {
        let (namespaces, requests) = (BTreeMap::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(PlacesState { free: places, given: 0, namespaces, requests })))
    }

    /// Returns the places for the runs of a namespace.
    pub fn of(&self, namespace: &str) -> NamespaceJobs {
        NamespaceJobs { places: self.clone(), namespace: namespace.into() }
    }

    /// Returns the number of places that are free.
    pub fn free(&self) -> usize {
        self.state().free
    }

    fn state(&self) -> MutexGuard<'_, PlacesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives places that are free to those who want one.
    fn give(&self) {
        loop {
            let next = self.state().next();
            let Some(PlaceRequest { namespace, answer }) = next else { return };
            // One that nobody waits for any more is free again when it is dropped.
            let _ = answer.send(JobPlace(NamespaceJobs { places: self.clone(), namespace }));
        }
    }
}

impl NamespaceJobs {
    /// Waits for a place.
    pub async fn acquire(&self) -> JobPlace {
        loop {
            let (answer, place) = oneshot::channel();
            {
                let mut state = self.places.state();
                state.requests.retain(|request| !request.answer.is_closed());
                state.requests.push_back(PlaceRequest { namespace: Arc::clone(&self.namespace), answer });
            }
            self.places.give();
            // A request that somebody waits for leaves the list with an answer alone.
            if let Ok(place) = place.await {
                return place;
            }
        }
    }
}

impl PlacesState {
    /// Takes a free place for the request that is the next; `None` if no place is free, or nobody wants one.
    fn next(&mut self) -> Option<PlaceRequest> {
        if self.free == 0 {
            return None;
        }
        let share = |request: &PlaceRequest| self.namespaces.get(&request.namespace).copied().unwrap_or_default();
        let open = self.requests.iter().enumerate().filter(|(_, request)| !request.answer.is_closed());
        // Of several requests of one namespace, the first one.
        let at = open.min_by_key(|(_, request)| share(request)).map(|(at, _)| at)?;
        let request = self.requests.remove(at)?;
        self.free -= 1;
        self.given += 1;
        let share = self.namespaces.entry(Arc::clone(&request.namespace)).or_default();
        *share = NamespaceShare { held: share.held + 1, last: self.given };
        Some(request)
    }
}

impl Drop for JobPlace {
    fn drop(&mut self) {
        let NamespaceJobs { places, namespace } = &self.0;
        {
            let mut state = places.state();
            state.free += 1;
            if let Some(share) = state.namespaces.get_mut(namespace) {
                share.held = share.held.saturating_sub(1);
            }
        }
        places.give();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::{FutureExt, poll};

    use super::*;

    #[tokio::test]
    async fn free_place_goes_to_the_namespace_with_the_fewest() {
        let places = JobPlaces::new(3);
        let (flooded, other) = (places.of("flooded"), places.of("other"));
        let mut held = vec![flooded.acquire().await, flooded.acquire().await, flooded.acquire().await];
        let mut fourth = pin!(flooded.acquire());
        let mut fifth = pin!(flooded.acquire());
        assert!(poll!(&mut fourth).is_pending() && poll!(&mut fifth).is_pending());
        // It comes later, and gets the next place that is free.
        let mut first = pin!(other.acquire());
        assert!(poll!(&mut first).is_pending());
        held.pop();
        assert!(poll!(&mut fourth).is_pending());
        let first = first.now_or_never().expect("a place");
        held.pop();
        held.push(fourth.now_or_never().expect("nobody else wants one"));
        assert!(poll!(&mut fifth).is_pending());
        drop(first);
        held.push(fifth.now_or_never().expect("nobody else wants one"));
        assert_eq!(places.free(), 0);
        drop(held);
        assert_eq!(places.free(), 3);
    }

    #[tokio::test]
    async fn namespaces_take_turns_at_a_single_place() {
        let places = JobPlaces::new(1);
        let (one, other) = (places.of("one"), places.of("other"));
        let first = one.acquire().await;
        let mut second = pin!(one.acquire());
        let mut third = pin!(other.acquire());
        assert!(poll!(&mut second).is_pending() && poll!(&mut third).is_pending());
        drop(first);
        // Both have none, and it was given one less recently.
        assert!(poll!(&mut second).is_pending());
        drop(third.now_or_never().expect("a place"));
        assert!(second.now_or_never().is_some());
    }

    #[tokio::test]
    async fn place_that_nobody_waits_for_is_free() {
        let places = JobPlaces::new(1);
        let jobs = places.of("one");
        let held = jobs.acquire().await;
        let mut given_up = Box::pin(jobs.acquire());
        assert!(poll!(&mut given_up).is_pending());
        let mut given = Box::pin(jobs.acquire());
        assert!(poll!(&mut given).is_pending());
        drop(given_up);
        drop(held);
        // It was given, and nobody took it.
        drop(given);
        assert_eq!(places.free(), 1);
        assert!(jobs.acquire().now_or_never().is_some());
    }
}
