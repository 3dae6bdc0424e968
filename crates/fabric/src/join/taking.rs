//! Addresses that are to move to this host: taken by its daemon first, then written into the store.

use std::io;

use super::applied::Applied;
use crate::etcd::{Client, Compare, Error, Operation};
use crate::keys::{self, Address, Answer, Keys, Place, Request};
use crate::orders::Own;
use crate::state::State;
use crate::switch::Switch;

/// The store, as one that takes addresses writes it.
pub(super) struct Taker<'m> {
    pub client: &'m Client,
    pub keys: &'m Keys,
    pub own: &'m Own,
    pub state: &'m State,
}

impl Taker<'_> {
    /// Takes the addresses of a request, and answers. Returns those of which the daemon may know more than the store: their
    /// places are to be written again. Errors: the daemon is gone.
    pub fn take<S: Switch>(
        &self,
        id: &str,
        (request, revision): (&Request, u64),
        daemon: &mut Applied<S>,
    ) -> io::Result<Vec<Address>> {
        if let Some((address, place)) = self.elsewhere(request) {
            let (address, place) = (address.1, place.cloned());
            self.answer(id, request, &Answer::Elsewhere { address, place });
            return Ok(Vec::new());
        }
        if let Err(reason) = daemon.take(request, revision)? {
            return Ok(self.refuse(id, request, &reason));
        }
        Ok(match self.write(id, (request, revision)) {
            Ok(true) => Vec::new(),
            Ok(false) => {
                self.refuse(id, request, "they have moved meanwhile");
                request.all().collect()
            }
            Err(_) => request.all().collect(),
        })
    }

    /// Answers that the addresses were not taken.
    pub fn refuse(&self, id: &str, request: &Request, reason: &str) -> Vec<Address> {
        self.answer(id, request, &Answer::Refused(reason.into()));
        Vec::new()
    }

    /// The first address that is not where the request has it.
    fn elsewhere(&self, request: &Request) -> Option<(Address, Option<&Place>)> {
        let from = request.from.as_ref()?;
        let mut places = request.all().map(|address| {
            let place = self.state.places.get(&address).map(|(place, _)| place);
            (address, place)
        });
        places.find(|(_, place)| *place != Some(from))
    }

    /// False: the store has changed meanwhile.
    fn write(&self, id: &str, (request, revision): (&Request, u64)) -> Result<bool, Error> {
        let mut conditions = vec![Compare::is_at(&self.keys.request(id), revision)];
        let mut operations = vec![
            Operation::delete(&self.keys.request(id)),
            self.put_answer(id, request, &Answer::Done),
        ];
        for (network, mac) in request.all() {
            let key = self.keys.address(&network, mac);
            let from = request.from.as_ref();
            conditions.extend(from.map(|from| Compare::has(&key, &keys::text(from))));
            operations.push(Operation::put(&key, &keys::text(&request.to)));
        }
        Ok(self.client.transact(&conditions, &operations)?.is_done)
    }

    fn put_answer(&self, id: &str, request: &Request, answer: &Answer) -> Operation {
        Operation::put_leased(&self.keys.answer(id), &keys::text(answer), request.lease)
    }

    /// An answer that does not arrive is a timeout for the asker.
    fn answer(&self, id: &str, request: &Request, answer: &Answer) {
        let operations = [
            Operation::delete(&self.keys.request(id)),
            self.put_answer(id, request, answer),
        ];
        self.client.transact(&[], &operations).ok();
    }

    /// Writes an address' place again as it is, which gives it a revision that the daemon takes. True: that is done, or the
    /// place is this host's.
    pub fn restate(&self, address: &Address) -> bool {
        let Some((place, revision)) = self.state.places.get(address) else {
            return true;
        };
        if place.host == self.own.name {
            return true;
        }
        let key = self.keys.address(&address.0, address.1);
        let put = [Operation::put(&key, &keys::text(place))];
        let unchanged = [Compare::is_at(&key, *revision)];
        // One that has changed since is told by the watch.
        self.client.transact(&unchanged, &put).is_ok()
    }
}
