//! The faults of a trial as they happen, in an order that follows from its seed.

use std::time::{Duration, SystemTime};

use tokio::time::sleep;

use super::{disturbance::Disturbance, plan::BoxError, proxy::ProxyMode, random::SeededRandom, trial::Trial};

impl Trial<'_> {
    /// Applies a fault, and ends it. While it lasts, a worker may be killed besides.
    pub async fn disturb(&mut self, disturbance: Disturbance, random: &mut SeededRandom) -> Result<(), BoxError> {
        let (worker, server) = (random.below(self.workers.count()), random.below(self.servers.count()));
        self.note(disturbance);
        match disturbance {
            Disturbance::KilledWorker => {
                self.workers.kill(worker)?;
                self.last(millis(random, 200, 1_500), random).await?;
                self.workers.start(worker)?;
            }
            Disturbance::DrainedWorker => {
                if !self.workers.drain(worker)? {
                    self.note(Disturbance::KilledWorker);
                }
                self.workers.start(worker)?;
            }
            Disturbance::StoppedWorker => {
                self.workers.set_stopped(worker, true)?;
                sleep(self.plan.lease + millis(random, 500, 2_000)).await;
                self.workers.set_stopped(worker, false)?;
            }
            Disturbance::SilentLink => self.with_links(worker, ProxyMode::Silent, 6_000, random).await?,
            Disturbance::LateLink => {
                let pause = millis(random, 20, 200);
                self.with_links(worker, ProxyMode::Late(pause), 3_000, random).await?;
            }
            Disturbance::CutLink => self.links[worker].iter().for_each(|link| link.cut()),
            Disturbance::DoubledLink => {
                // Connections are doubled from their beginning.
                self.links[worker].iter().for_each(|link| link.set(ProxyMode::Doubled));
                self.links[worker].iter().for_each(|link| link.cut());
                self.with_links(worker, ProxyMode::Doubled, 4_000, random).await?;
            }
            Disturbance::KilledServer => {
                self.servers.kill(server)?;
                self.last(millis(random, 200, 2_500), random).await?;
                self.servers.restart(server, false)?;
            }
            Disturbance::StoppedServer => {
                self.servers.set_stopped(server, true)?;
                self.last(millis(random, 500, 2_000), random).await?;
                self.servers.set_stopped(server, false)?;
            }
            Disturbance::FullServer => {
                self.servers.kill(server)?;
                self.servers.restart(server, true)?;
                self.last(millis(random, 1_500, 4_000), random).await?;
                self.servers.kill(server)?;
                self.servers.restart(server, false)?;
            }
        }
        Ok(())
    }

    /// Treats the connections of a worker so for a while, and cuts them then.
    async fn with_links(
        &mut self,
        worker: usize,
        mode: ProxyMode,
        most: u64,
        random: &mut SeededRandom,
    ) -> Result<(), BoxError> {
        self.links[worker].iter().for_each(|link| link.set(mode));
        self.last(millis(random, 500, most), random).await?;
        // What was held is lost: the connections end before it could go on.
        self.links[worker].iter().for_each(|link| link.cut());
        self.links[worker].iter().for_each(|link| link.set(ProxyMode::Open));
        Ok(())
    }

    /// Lets a fault last, and kills a worker in one of three.
    async fn last(&mut self, time: Duration, random: &mut SeededRandom) -> Result<(), BoxError> {
        sleep(time / 2).await;
        let victim = random.below(self.workers.count());
        if random.below(3) == 0 && self.workers.process_id(victim).is_some() {
            self.note(Disturbance::KilledWorker);
            self.workers.kill(victim)?;
            self.workers.start(victim)?;
        }
        sleep(time / 2).await;
        Ok(())
    }

    fn note(&mut self, disturbance: Disturbance) {
        self.disturbances.push((SystemTime::now(), disturbance));
    }
}

/// Returns a random time between two numbers of milliseconds.
fn millis(random: &mut SeededRandom, least: u64, most: u64) -> Duration {
    Duration::from_millis(least + random.below((most - least) as usize) as u64)
}
