//! Resolves names on threads that nothing else needs.
//!
//! `getaddrinfo` blocks while name servers do not answer, for half a minute or more, and cannot be cancelled. The runtime has few blocking
//! threads, and they read disks for every client. So each look-up gets a thread of its own, and calls for the same name share one look-up.
//!
//! Decision 169: docs/decisions/sinks.md.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// How many look-ups may run at once. A sink has one receiver, so it usually has one name.
const MOST_LOOKUPS: usize = 4;

/// The result of a look-up, once it has ended.
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

/// Asks the system's resolver, as other programs do.
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
            // The look-up's thread panicked.
            Err(_) => None,
        };
        let addresses = found.unwrap_or_else(|| Err("the look-up panicked".into()))?;
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    /// Joins the running look-up of this host, or starts one.
    fn join(&self, host: &str) -> Result<watch::Receiver<Found>, String> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that panicked did not remove its entry.
        under_way.retain(|_, found| found.has_changed().is_ok());
        if let Some(found) = under_way.get(host) {
            return Ok(found.clone());
        }
        if under_way.len() >= MOST_LOOKUPS {
            return Err(format!("{MOST_LOOKUPS} look-ups of other names are waiting for an answer"));
        }
        let (tell, found) = watch::channel(None);
        let (all, resolve, name) = (Arc::clone(&self.under_way), self.resolve, host.to_owned());
        let look = move || {
            let looked = resolve(&name).map_err(|e| e.to_string());
            // The entry is removed before the answer is sent, so that a later call starts a new look-up.
            all.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            tell.send_replace(Some(looked));
        };
        std::thread::Builder::new().name("lookup".into()).spawn(look).map_err(|e| format!("cannot start a thread: {e}"))?;
        under_way.insert(host.to_owned(), found.clone());
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Condvar;
    use std::time::Duration;

    #[tokio::test]
    async fn a_number_needs_no_look_up() {
        let never = Lookups { resolve: |_| panic!("asked"), ..Lookups::default() };
        assert_eq!(never.find("127.0.0.1", 80).await.unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(never.find("::1", 80).await.unwrap(), ["[::1]:80".parse().unwrap()]);
    }

    #[tokio::test]
    async fn calls_for_one_name_share_a_look_up_that_hangs() {
        /// How many look-ups have begun, and whether the name server answers.
        static SERVER: (Mutex<(usize, bool)>, Condvar) = (Mutex::new((0, false)), Condvar::new());
        let lookups = Lookups {
            resolve: |_| {
                let mut server = SERVER.0.lock().unwrap();
                server.0 += 1;
                SERVER.1.notify_all();
                drop(SERVER.1.wait_while(server, |(_, answers)| !*answers));
                Ok(vec![IpAddr::from([127, 0, 0, 1])])
            },
            ..Lookups::default()
        };
        for _ in 0..10 {
            // This is what a call does when it times out.
            assert!(tokio::time::timeout(Duration::from_millis(1), lookups.find("a.test", 80)).await.is_err());
        }
        for other in ["b.test", "c.test", "d.test"] {
            assert!(tokio::time::timeout(Duration::from_millis(1), lookups.find(other, 80)).await.is_err());
        }
        let refused = lookups.find("e.test", 80).await.unwrap_err();
        assert!(refused.contains("4 look-ups"), "{refused}");
        // Joins the look-up of this name before the server answers.
        let mut waiting = std::pin::pin!(lookups.find("a.test", 80));
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut waiting).await.is_err());
        SERVER.1.wait_while(SERVER.0.lock().unwrap(), |(begun, _)| *begun < MOST_LOOKUPS).unwrap().1 = true;
        SERVER.1.notify_all();
        assert_eq!(waiting.await.unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(SERVER.0.lock().unwrap().0, 4, "one for each name");
    }

    #[tokio::test]
    async fn a_look_up_that_breaks_off_is_begun_anew() {
        let lookups = Lookups { resolve: |_| panic!("on purpose"), ..Lookups::default() };
        for _ in 0..MOST_LOOKUPS + 1 {
            assert_eq!(lookups.find("a.test", 80).await.unwrap_err(), "the look-up panicked");
        }
    }
}
