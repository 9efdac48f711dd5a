//! How many messages are posted at once: in all, and to one host, so that a host that does not answer holds up only its own.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many messages are posted at once.
const AT_ONCE: usize = 32;
/// How many of them go to one host.
const AT_ONE_HOST: usize = 8;

/// The places of the messages that are posted at once.
#[derive(Debug)]
pub(super) struct Room {
    all: Arc<Semaphore>,
    /// The places at each host that a message is posted to, or waits for.
    hosts: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(AT_ONCE)),
            hosts: Mutex::default(),
        }
    }
}

impl Room {
    /// A place for a message to this address, until it is dropped. That at its host comes first: what waits for a slow host
    /// takes no place from the others. The semaphores are never closed.
    pub(super) async fn place(&self, address: &str) -> [Option<OwnedSemaphorePermit>; 2] {
        let at_host = self.at(host_of(address)).acquire_owned().await.ok();
        [at_host, self.all.clone().acquire_owned().await.ok()]
    }

    fn at(&self, host: &str) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock();
        if let Some(known) = hosts.get(host).and_then(Weak::upgrade) {
            return known;
        }
        hosts.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(AT_ONE_HOST));
        hosts.insert(host.to_owned(), Arc::downgrade(&places));
        places
    }
}

/// The host in an address, as it is written there: variables are not looked up.
fn host_of(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_host_that_does_not_answer_holds_up_no_message_to_another() {
        let room = Room::default();
        let waits = async |address: &str| {
            let place = tokio::time::timeout(Duration::from_secs(1), room.place(address));
            place.await.ok()
        };
        let mut slow = Vec::new();
        for number in 0..AT_ONE_HOST {
            slow.push(waits(&format!("https://slow.example/{number}?x=1")).await);
        }
        assert!(slow.iter().all(Option::is_some));
        assert!(waits("https://slow.example/more").await.is_none());
        let other = waits("https://fast.example/").await;
        assert!(other.is_some());
        slow.pop();
        assert!(waits("http://slow.example#again").await.is_some());
        drop((slow, other));
        let _last = waits("https://third.example").await;
        assert_eq!(room.hosts.lock().len(), 1, "idle hosts are forgotten");
    }
}
