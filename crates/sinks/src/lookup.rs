//! Finding the addresses of a name, on threads that nothing else needs.
//!
//! `getaddrinfo` blocks for as long as name servers do not answer, which can be half a minute, and cannot be called off. The runtime's blocking threads are few and
//! read disks for every client, so a look-up gets a thread of its own, and a name has one look-up under way at most: calls for the same name share it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// How many look-ups may be under way. There are as many names as a sink has receivers, which is one.
const MOST_LOOKUPS: usize = 4;

/// What a look-up found, once it has ended.
type Found = Option<Result<Vec<IpAddr>, String>>;

/// The look-ups of one sink.
#[derive(Clone)]
pub(crate) struct Lookups {
    under_way: Arc<Mutex<BTreeMap<String, watch::Receiver<Found>>>>,
    resolve: fn(&str) -> io::Result<Vec<IpAddr>>,
}

impl Default for Lookups {
    fn default() -> Self {
        Self { under_way: Arc::default(), resolve: system }
    }
}

/// Asks the system, as every other program does.
fn system(host: &str) -> io::Result<Vec<IpAddr>> {
    Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

impl Lookups {
    /// Look-ups that ask somebody else.
    #[cfg(test)]
    pub(crate) fn with(resolve: fn(&str) -> io::Result<Vec<IpAddr>>) -> Self {
        Self { under_way: Arc::default(), resolve }
    }

    /// The addresses of a host. Dropping this ends the wait, not the look-up.
    pub(crate) async fn find(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let mut found = self.join(host)?;
        let found = match found.wait_for(Option::is_some).await {
            Ok(found) => found.clone(),
            // Its thread panicked.
            Err(_) => None,
        };
        let addresses = found.unwrap_or_else(|| Err("the look-up broke off".into()))?;
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    /// Joins the look-up of this host, or begins it.
    fn join(&self, host: &str) -> Result<watch::Receiver<Found>, String> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that panicked leaves its entry behind.
        under_way.retain(|_, found| found.has_changed().is_ok());
        if let Some(found) = under_way.get(host) {
            return Ok(found.clone());
        }
        if under_way.len() >= MOST_LOOKUPS {
            return Err(format!("{MOST_LOOKUPS} look-ups of other names are under way and are not answered"));
        }
        let (tell, found) = watch::channel(None);
        let (all, resolve, name) = (Arc::clone(&self.under_way), self.resolve, host.to_owned());
        let look = move || {
            let looked = resolve(&name).map_err(|e| e.to_string());
            // Removed first, so that whoever comes after the answer asks anew.
            all.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            tell.send_replace(Some(looked));
        };
        std::thread::Builder::new().name("lookup".into()).spawn(look).map_err(|e| format!("no thread can be started: {e}"))?;
        under_way.insert(host.to_owned(), found.clone());
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Condvar;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    #[tokio::test]
    async fn a_number_needs_no_look_up() {
        let never = Lookups { resolve: |_| panic!("asked"), ..Lookups::default() };
        assert_eq!(never.find("127.0.0.1", 80).await.unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(never.find("::1", 80).await.unwrap(), ["[::1]:80".parse().unwrap()]);
    }

    #[tokio::test]
    async fn calls_for_one_name_share_a_look_up_that_hangs() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        static ANSWERS: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
        let lookups = Lookups {
            resolve: |_| {
                ASKED.fetch_add(1, SeqCst);
                drop(ANSWERS.1.wait_while(ANSWERS.0.lock().unwrap(), |answers| !*answers));
                Ok(vec![IpAddr::from([127, 0, 0, 1])])
            },
            ..Lookups::default()
        };
        for _ in 0..10 {
            // As a call does whose time is over.
            assert!(tokio::time::timeout(Duration::from_millis(1), lookups.find("a.test", 80)).await.is_err());
        }
        for other in ["b.test", "c.test", "d.test"] {
            assert!(tokio::time::timeout(Duration::from_millis(1), lookups.find(other, 80)).await.is_err());
        }
        let refused = lookups.find("e.test", 80).await.unwrap_err();
        assert!(refused.contains("4 look-ups"), "{refused}");
        while ASKED.load(SeqCst) < 4 {
            // The threads tell no one that they have begun.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let waiting = tokio::spawn({
            let lookups = lookups.clone();
            async move { lookups.find("a.test", 80).await }
        });
        // It has joined the look-up before that is answered.
        tokio::task::yield_now().await;
        *ANSWERS.0.lock().unwrap() = true;
        ANSWERS.1.notify_all();
        assert_eq!(waiting.await.unwrap().unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(ASKED.load(SeqCst), 4, "one for each name");
    }

    #[tokio::test]
    async fn a_look_up_that_breaks_off_is_begun_anew() {
        let lookups = Lookups { resolve: |_| panic!("on purpose"), ..Lookups::default() };
        for _ in 0..MOST_LOOKUPS + 1 {
            assert_eq!(lookups.find("a.test", 80).await.unwrap_err(), "the look-up broke off");
        }
    }
}
