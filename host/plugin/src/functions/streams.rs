//! Streams and futures of arguments and results: the model sees lists and values, the component gets readable ends.
//!
//! The engine passes elements of a stream only as a Rust type that is known when the host is compiled. So the elements are
//! numbers, booleans, characters and strings; the reader of [`WitType`]s refuses all others.

use std::{
    future::ready,
    marker::PhantomData,
    mem,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use tokio::sync::oneshot;
use wasmtime::{
    AsContextMut, Store, StoreContextMut, bail,
    component::{
        ComponentType, FutureConsumer, FutureReader, Lift, Lower, Source, StreamConsumer, StreamReader, StreamResult,
        Val,
    },
};

use super::wit_types::{WitInt, WitType, WitTypeKind};
use shelly_core::limits;

/// A Rust type whose values a stream can carry.
trait StreamElement: ComponentType + Lift + Lower + Send + Sync + Unpin + 'static {
    /// The number of elements that are read at once. Strings are read one by one, because each counts against the limit of
    /// bytes before the next one is read.
    const AT_ONCE: usize;

    fn into_val(self) -> Val;

    fn from_val(value: Val) -> Option<Self>
    where
        Self: Sized;
}

macro_rules! stream_elements {
    ($($element:ty as $case:ident, $at_once:expr;)*) => {$(
        impl StreamElement for $element {
            const AT_ONCE: usize = $at_once;

            fn into_val(self) -> Val {
                Val::$case(self)
            }

            fn from_val(value: Val) -> Option<Self> {
                if let Val::$case(element) = value { Some(element) } else { None }
            }
        }
    )*};
}

stream_elements! {
    bool as Bool, limits::STREAM_ELEMENTS;
    u8 as U8, limits::STREAM_ELEMENTS;
    i8 as S8, limits::STREAM_ELEMENTS;
    u16 as U16, limits::STREAM_ELEMENTS;
    i16 as S16, limits::STREAM_ELEMENTS;
    u32 as U32, limits::STREAM_ELEMENTS;
    i32 as S32, limits::STREAM_ELEMENTS;
    u64 as U64, limits::STREAM_ELEMENTS;
    i64 as S64, limits::STREAM_ELEMENTS;
    f32 as Float32, limits::STREAM_ELEMENTS;
    f64 as Float64, limits::STREAM_ELEMENTS;
    char as Char, limits::STREAM_ELEMENTS;
    String as String, 1;
}

/// Calls a function with the Rust type of an element as its first type parameter.
macro_rules! for_element {
    ($element:expr, $function:ident($($argument:expr),*)) => {
        match &$element.form {
            WitTypeKind::Bool => $function::<bool, D>($($argument),*),
            WitTypeKind::Int(WitInt::U8) => $function::<u8, D>($($argument),*),
            WitTypeKind::Int(WitInt::S8) => $function::<i8, D>($($argument),*),
            WitTypeKind::Int(WitInt::U16) => $function::<u16, D>($($argument),*),
            WitTypeKind::Int(WitInt::S16) => $function::<i16, D>($($argument),*),
            WitTypeKind::Int(WitInt::U32) => $function::<u32, D>($($argument),*),
            WitTypeKind::Int(WitInt::S32) => $function::<i32, D>($($argument),*),
            WitTypeKind::Int(WitInt::U64) => $function::<u64, D>($($argument),*),
            WitTypeKind::Int(WitInt::S64) => $function::<i64, D>($($argument),*),
            WitTypeKind::F32 => $function::<f32, D>($($argument),*),
            WitTypeKind::F64 => $function::<f64, D>($($argument),*),
            WitTypeKind::Char => $function::<char, D>($($argument),*),
            WitTypeKind::String => $function::<String, D>($($argument),*),
            _ => bail!("the elements of a stream are of a type that no stream can carry"),
        }
    };
}

/// Converts the lists and values in an argument to streams and futures where the component takes these.
///
/// # Errors
///
/// The engine's error if the store has no room for another end, or a value of the wrong type.
pub fn send_streams<D: Send + 'static>(
    store: &mut Store<D>,
    shape: &WitType,
    argument: &mut Val,
) -> wasmtime::Result<()> {
    each_end(shape, argument, &mut |shape, value| {
        let sent = mem::replace(value, Val::Bool(false));
        *value = match &shape.form {
            WitTypeKind::Stream(element) => for_element!(element, stream_of(store, sent))?,
            WitTypeKind::Future(element) => for_element!(element, future_of(store, sent))?,
            _ => sent,
        };
        Ok(())
    })
}

/// Reads the streams and futures in a result to their ends, and converts them to lists and values. Returns `true` if
/// elements beyond the limits were not read.
///
/// # Errors
///
/// A trap of the component, a future that ends without a value, or futures beyond the limits: a part of them is no result.
pub async fn receive_streams<D: Send + 'static>(
    store: &mut Store<D>,
    shape: &WitType,
    result: &mut Val,
) -> wasmtime::Result<bool> {
    let room = Arc::new(Mutex::new(StreamRoom::default()));
    let mut waiting = Vec::new();
    each_end(shape, result, &mut |shape, value| {
        if let WitTypeKind::Stream(element) | WitTypeKind::Future(element) = &shape.form {
            waiting.push(for_element!(element, begin_reading(store, value, &room))?);
        }
        Ok(())
    })?;
    if waiting.is_empty() {
        return Ok(false);
    }
    // The component writes while its event loop runs. The time limit of the call bounds the wait.
    let received = store.run_concurrent(async move |_| {
        let mut received = Vec::new();
        for one in waiting {
            // A collector sends its elements when it is dropped, if not before. So this ends.
            received.push(one.await.unwrap_or_default());
        }
        received
    });
    let mut received = received.await?.into_iter();
    each_end(shape, result, &mut |shape, value| {
        let mut elements = received.next().unwrap_or_default();
        *value = match &shape.form {
            WitTypeKind::Future(_) => match elements.pop() {
                Some(element) => element,
                None => bail!("a future ended without a value"),
            },
            _ => Val::List(elements),
        };
        Ok(())
    })?;
    let is_cut = room.lock().unwrap_or_else(PoisonError::into_inner).is_cut;
    Ok(is_cut)
}

/// Visits the streams and futures in a value, always in the same order.
fn each_end(
    shape: &WitType,
    value: &mut Val,
    visit: &mut dyn FnMut(&WitType, &mut Val) -> wasmtime::Result<()>,
) -> wasmtime::Result<()> {
    if !shape.holds_stream() {
        return Ok(());
    }
    match (&shape.form, value) {
        (WitTypeKind::Stream(_) | WitTypeKind::Future(_), value) => visit(shape, value),
        (WitTypeKind::List(element), Val::List(list)) => {
            list.iter_mut().try_for_each(|value| each_end(element, value, visit))
        }
        (WitTypeKind::Map { value: held, .. }, Val::Map(entries)) => {
            entries.iter_mut().try_for_each(|(_, value)| each_end(held, value, visit))
        }
        (WitTypeKind::Tuple(shapes), Val::Tuple(parts)) => {
            shapes.iter().zip(parts).try_for_each(|(shape, value)| each_end(shape, value, visit))
        }
        (WitTypeKind::Record(fields), Val::Record(values)) => {
            fields.iter().zip(values).try_for_each(|(field, (_, value))| each_end(&field.shape, value, visit))
        }
        (WitTypeKind::Variant(cases), Val::Variant(name, Some(payload))) => {
            match cases.iter().find(|case| case.name == *name).and_then(|case| case.payload.as_ref()) {
                Some(shape) => each_end(shape, payload, visit),
                None => Ok(()),
            }
        }
        (WitTypeKind::Option(inner), Val::Option(Some(value))) => each_end(inner, value, visit),
        (WitTypeKind::Result { ok: Some(shape), .. }, Val::Result(Ok(Some(value))))
        | (WitTypeKind::Result { error: Some(shape), .. }, Val::Result(Err(Some(value)))) => {
            each_end(shape, value, visit)
        }
        _ => Ok(()),
    }
}

fn stream_of<T: StreamElement, D: Send + 'static>(store: &mut Store<D>, list: Val) -> wasmtime::Result<Val> {
    let Val::List(list) = list else { bail!("the value of a stream is not a list") };
    let elements = list.into_iter().map(T::from_val).collect::<Option<Vec<T>>>();
    let Some(elements) = elements else { bail!("an element of a stream has the wrong type") };
    let reader = StreamReader::<T>::new(&mut *store, elements)?;
    Ok(Val::Stream(reader.try_into_stream_any(&mut *store)?))
}

fn future_of<T: StreamElement, D: Send + 'static>(store: &mut Store<D>, value: Val) -> wasmtime::Result<Val> {
    let Some(value) = T::from_val(value) else { bail!("the value of a future has the wrong type") };
    let reader = FutureReader::<T>::new(&mut *store, ready(Ok::<T, wasmtime::Error>(value)))?;
    Ok(Val::Future(reader.try_into_future_any(&mut *store)?))
}

/// Begins to read a stream or a future. The receiver gets all elements at once, when it has ended or a limit is reached.
fn begin_reading<T: StreamElement, D: Send + 'static>(
    store: &mut Store<D>,
    end: &Val,
    room: &Arc<Mutex<StreamRoom>>,
) -> wasmtime::Result<oneshot::Receiver<Vec<Val>>> {
    let (ended, elements) = oneshot::channel();
    let collector =
        ElementCollector::<T> { elements: Vec::new(), room: Arc::clone(room), ended: Some(ended), of: PhantomData };
    match end {
        Val::Stream(stream) => stream.clone().try_into_stream_reader::<T>()?.pipe(&mut *store, collector)?,
        Val::Future(future) => future.clone().try_into_future_reader::<T>()?.pipe(&mut *store, collector)?,
        _ => bail!("the component returned a value of the wrong type"),
    }
    Ok(elements)
}

/// The elements and bytes that the streams and futures of one result may still carry, all together.
struct StreamRoom {
    elements: usize,
    /// The bytes of texts.
    bytes: usize,
    /// `true` if a stream had more than was read.
    is_cut: bool,
}

impl Default for StreamRoom {
    fn default() -> Self {
        Self { elements: limits::STREAM_ELEMENTS, bytes: limits::STREAM_TEXT_BYTES, is_cut: false }
    }
}

impl StreamRoom {
    /// Returns the number of elements that may be read next.
    fn left(&self) -> usize {
        if self.bytes == 0 { 0 } else { self.elements }
    }

    fn take(&mut self, element: &Val) {
        self.elements = self.elements.saturating_sub(1);
        if let Val::String(text) = element {
            self.bytes = self.bytes.saturating_sub(text.len());
        }
    }
}

/// Collects the elements of one stream, or the value of one future. The engine drops the collector when the component drops
/// the writable end; the elements are handed over then at the latest.
struct ElementCollector<T> {
    elements: Vec<Val>,
    room: Arc<Mutex<StreamRoom>>,
    ended: Option<oneshot::Sender<Vec<Val>>>,
    of: PhantomData<fn() -> T>,
}

impl<T> ElementCollector<T> {
    /// Keeps elements that were read, and counts them.
    fn collect(&mut self, read: impl IntoIterator<Item = T>)
    where
        T: StreamElement,
    {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        for element in read.into_iter().map(T::into_val) {
            room.take(&element);
            self.elements.push(element);
        }
    }

    fn hand_over(&mut self) {
        if let Some(ended) = self.ended.take() {
            // Nobody waits if the call was cancelled.
            let _ = ended.send(mem::take(&mut self.elements));
        }
    }
}

impl<T> Drop for ElementCollector<T> {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl<D: 'static, T: StreamElement> StreamConsumer<D> for ElementCollector<T> {
    type Item = T;

    fn poll_consume(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut store: StoreContextMut<'_, D>,
        mut source: Source<'_, T>,
        _: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let collector = self.get_mut();
        loop {
            let available = source.remaining(store.as_context_mut());
            if available == 0 {
                return Poll::Ready(Ok(StreamResult::Completed));
            }
            let most = {
                let mut room = collector.room.lock().unwrap_or_else(PoisonError::into_inner);
                room.is_cut |= room.left() == 0;
                room.left().min(available).min(T::AT_ONCE)
            };
            if most == 0 {
                // Tells the component that the readable end is closed.
                collector.hand_over();
                return Poll::Ready(Ok(StreamResult::Dropped));
            }
            let mut read: Vec<T> = Vec::with_capacity(most);
            source.read(store.as_context_mut(), &mut read)?;
            collector.collect(read);
        }
    }
}

impl<D: 'static, T: StreamElement> FutureConsumer<D> for ElementCollector<T> {
    type Item = T;

    fn poll_consume(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut store: StoreContextMut<'_, D>,
        mut source: Source<'_, T>,
        _: bool,
    ) -> Poll<wasmtime::Result<()>> {
        let collector = self.get_mut();
        // A result can have thousands of futures, all of the same bytes in the guest.
        if collector.room.lock().unwrap_or_else(PoisonError::into_inner).left() == 0 {
            let most = limits::STREAM_TEXT_BYTES;
            return Poll::Ready(Err(wasmtime::format_err!(
                "the futures of the result carry more than {most} bytes of text, which cannot be raised"
            )));
        }
        let mut read: Option<T> = None;
        source.read(store.as_context_mut(), &mut read)?;
        if let Some(value) = read {
            collector.collect([value]);
            collector.hand_over();
        }
        Poll::Ready(Ok(()))
    }
}
