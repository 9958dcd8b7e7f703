//! The faults of a trial as they happen, in an order that follows from its seed.

use std::{
    io::Write,
    time::{Duration, SystemTime},
};

use tokio::time::sleep;

use super::{
    disturbance::Disturbance,
    plan::BoxError,
    proxy::{Proxy, ProxyMode},
    random::SeededRandom,
    trial::Trial,
    wall_clock,
};

impl Trial<'_> {
    /// Returns the faults that this system allows, and says which ones are left out.
    pub fn faults(&mut self) -> Vec<Disturbance> {
        let servers = self.servers.count();
        let process = self.workers.process_id(0);
        // A jump by nothing, to see whether it can be done.
        let clock = process.map_or(Err("no worker runs".into()), |process| wall_clock::set_ahead(process, 0));
        let no_clock = clock.and_then(|()| self.servers.jump_ahead(0)).err().map(|error| error.to_string());
        for (words, reason) in [("clocks that jump", &no_clock), ("a full disk", &self.no_disk)] {
            if let Some(reason) = reason {
                let line = format!("{words}: {reason}");
                eprintln!("left out: {line}");
                self.left_out.push(line);
            }
        }
        let is_there = |fault: &Disturbance| match fault {
            // Where one of several servers may store no more, the others take its place.
            Disturbance::FullServer => servers == 1,
            Disturbance::FullDisk => self.servers.on_disk().is_some(),
            Disturbance::WorkerClock | Disturbance::ServerClock => no_clock.is_none(),
            _ => true,
        };
        Disturbance::ALL.into_iter().filter(is_there).collect()
    }

    /// Applies a fault, and ends it. While it lasts, a worker may be killed besides.
    pub async fn disturb(&mut self, disturbance: Disturbance, random: &mut SeededRandom) -> Result<(), BoxError> {
        let (worker, server) = (random.below(self.workers.count()), random.below(self.servers.count()));
        // The last links are those of the person.
        let link = random.below(self.links.len());
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
            Disturbance::SilentLink => self.with_links(link, ProxyMode::Silent, 6_000, random).await?,
            Disturbance::LateLink => {
                let pause = millis(random, 20, 200);
                self.with_links(link, ProxyMode::Late(pause), 3_000, random).await?;
            }
            Disturbance::CutLink => self.links[link].iter().for_each(|link| link.cut()),
            Disturbance::DoubledLink => {
                // Connections are doubled from their beginning.
                self.links[link].iter().for_each(|link| link.set(ProxyMode::Doubled));
                self.links[link].iter().for_each(|link| link.cut());
                self.with_links(link, ProxyMode::Doubled, 4_000, random).await?;
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
            Disturbance::FullDisk => {
                self.servers.set_disk_full(true)?;
                self.last(millis(random, 2_000, 6_000), random).await?;
                self.servers.set_disk_full(false)?;
                // A server whose disk was full stores nothing until it begins again.
                if let Some(server) = self.servers.on_disk() {
                    self.servers.kill(server)?;
                    self.servers.restart(server, false)?;
                }
            }
            Disturbance::OvertakenLink => {
                let late = millis(random, 1_000, 8_000);
                self.links[link].iter().for_each(|link| link.set(ProxyMode::Overtaken(late)));
                self.last(millis(random, 300, 1_500), random).await?;
                self.links[link].iter().for_each(Proxy::overtake);
            }
            Disturbance::WorkerClock => {
                let jump = seconds(random);
                for ahead in [jump, -jump] {
                    // It may have been killed and begun again meanwhile, with the clock of the machine.
                    let process = self.workers.process_id(worker);
                    self.log(&format!("the clock of worker {worker} is ahead by {ahead} s"));
                    if let Some(Err(error)) = process.map(|process| wall_clock::set_ahead(process, ahead)) {
                        // It may just have ended by itself.
                        self.log(&format!("the clock keeps its time: {error}"));
                    }
                    self.last(millis(random, 500, 3_000), random).await?;
                }
            }
            Disturbance::ServerClock => {
                let ahead = seconds(random);
                self.log(&format!("the clocks of the servers jump by {ahead} s"));
                self.servers.jump_ahead(ahead)?;
                self.last(millis(random, 500, 3_000), random).await?;
            }
        }
        Ok(())
    }

    /// Treats the connections of a client so for a while, and cuts them then.
    async fn with_links(
        &mut self,
        link: usize,
        mode: ProxyMode,
        most: u64,
        random: &mut SeededRandom,
    ) -> Result<(), BoxError> {
        self.links[link].iter().for_each(|link| link.set(mode));
        self.last(millis(random, 500, most), random).await?;
        // What was held is lost: the connections end before it could go on.
        self.links[link].iter().for_each(|link| link.cut());
        self.links[link].iter().for_each(|link| link.set(ProxyMode::Open));
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
        self.log(disturbance.words());
    }

    /// Writes a line to the log of the trial.
    fn log(&mut self, line: &str) {
        // It is read by eye: one that cannot be written is no failure of the trial.
        let _ = writeln!(self.log, "{:9.3} s  {line}", self.began.elapsed().as_secs_f64());
    }
}

/// Returns a random time between two numbers of milliseconds.
fn millis(random: &mut SeededRandom, least: u64, most: u64) -> Duration {
    Duration::from_millis(least + random.below((most - least) as usize) as u64)
}

/// Returns a random number of seconds, from one hour to six, forwards or backwards.
fn seconds(random: &mut SeededRandom) -> i64 {
    let hours = 1 + i64::try_from(random.below(6)).unwrap_or_default();
    if random.below(2) == 0 { hours * 3_600 } else { -hours * 3_600 }
}
