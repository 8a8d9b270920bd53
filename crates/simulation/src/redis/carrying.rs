//! Connections: bytes that are on their way, there and back.
//!
//! What is written arrives in its order, after a pause, as an event of the world. Something may hold it up: then it goes on
//! when that is over. A dead way swallows everything and says nothing, as a firewall that has forgotten the connection.

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tidelock_core::backend::{Moment, Sleep};

use super::Servers;
use super::resp::{self, Reply};
use super::stream::Stream;
use super::wire::{End, Packet, To, Wire};
use crate::plan::{Fault, ms};
use crate::time::lock;

/// From how many connections of a client in a second on there is a storm.
const STORM: u32 = 1_000;

impl Servers {
    /// Connects a client to that address.
    pub(super) async fn dial(self: Arc<Self>, client: usize, host: String, port: u16) -> io::Result<Stream> {
        let clock = self.time.clock();
        let pause = self.pause(client) + self.pause(client);
        Sleep::until(&clock, clock.now() + pause).await;
        self.count_dial(client);
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let node = self.node_at(&host, port).ok_or_else(refused)?;
        while let Some(until) = self.held_until(client, node, To::Client).filter(|until| *until > clock.now())
        {
            // A server that stands still accepts all the same: its machine does that.
            Sleep::until(&clock, until).await;
        }
        let refuses = |fault: &Fault| matches!(fault, Fault::Refuse { client: of } if *of == client);
        if self.ends(refuses).is_some() || lock(&self.state).nodes[node].is_down {
            return Err(refused());
        }
        let wire = Wire::new(client, node);
        let number = {
            let mut wires = lock(&self.wires);
            wires.last += 1;
            let number = wires.last;
            wires.all.insert(number, wire);
            number
        };
        if self.is_full(node) {
            self.record.cut_off(client, self.time.now());
            self.reply(number, &Reply::Error("ERR max number of clients reached".into()));
            self.send(number, To::Client, Packet::End);
        }
        Ok(Stream::new(self, number))
    }

    /// A client that tries again and again has to pause.
    fn count_dial(&self, client: usize) {
        let second = self.time.age().as_secs();
        let mut wires = lock(&self.wires);
        let (of, count) = wires.dials.entry(client).or_default();
        *count = if *of == second { *count + 1 } else { 1 };
        *of = second;
        if *count == STORM {
            self.record.found("storm", format!("client {client} makes {STORM} connections in a second"));
        }
    }

    /// A client writes.
    pub(super) fn write(self: &Arc<Self>, number: u64, bytes: &[u8]) -> io::Result<()> {
        let client = match lock(&self.wires).all.get(&number) {
            Some(wire) if wire.end.is_none() => wire.client,
            _ => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        let rain = self.rain(client);
        if rain.is_some_and(|(requests, _, _)| lock(&self.dice[client]).below(100) < requests) {
            self.break_off(number, rain.is_some_and(|(_, _, is_told)| is_told));
        }
        self.send(number, To::Server, Packet::Bytes(bytes.to_vec()));
        Ok(())
    }

    /// A client has no use for its connection any more.
    pub(super) fn hang_up(self: &Arc<Self>, number: u64) {
        let mut wires = lock(&self.wires);
        let Some(wire) = wires.all.get_mut(&number) else { return };
        (wire.end, wire.reader) = (Some(End::Closed), None);
        if wire.is_served && !wire.there.is_dead {
            drop(wires);
            self.send(number, To::Server, Packet::End);
        } else {
            drop(wires.all.remove(&number));
        }
    }

    /// A server replies, or pushes.
    pub(super) fn reply(self: &Arc<Self>, number: u64, reply: &Reply) {
        let Some(client) = lock(&self.wires).all.get(&number).map(|wire| wire.client) else { return };
        let rain = self.rain(client);
        if rain.is_some_and(|(_, replies, _)| lock(&self.dice[client]).below(100) < replies) {
            self.break_off(number, rain.is_some_and(|(_, _, is_told)| is_told));
        }
        self.send(number, To::Client, Packet::Bytes(reply.bytes()));
    }

    fn send(self: &Arc<Self>, number: u64, to: To, packet: Packet) {
        let now = self.time.now();
        let mut wires = lock(&self.wires);
        let Some(wire) = wires.all.get_mut(&number) else { return };
        let (client, way) = (wire.client, wire.way(to));
        if way.is_dead {
            return;
        }
        let at = way.last.max(now + self.pause(client));
        way.last = at;
        way.under_way.push_back((at, packet));
        drop(wires);
        self.note_late(client, at);
        let servers = self.clone();
        self.time.at(at, move || servers.arrive(number, to));
    }

    /// Whatever is due on this way arrives, unless something holds it up.
    fn arrive(self: &Arc<Self>, number: u64, to: To) {
        loop {
            let now = self.time.now();
            let mut wires = lock(&self.wires);
            let Some(wire) = wires.all.get_mut(&number) else { return };
            let (client, node) = (wire.client, wire.node);
            if wire.way(to).under_way.front().is_none_or(|(at, _)| *at > now) {
                return;
            }
            if let Some(until) = self.held_until(client, node, to).filter(|until| *until > now) {
                drop(wires);
                self.record.touch(client, until);
                let servers = self.clone();
                self.time.at(until, move || servers.arrive(number, to));
                return;
            }
            let packet = wire.way(to).under_way.pop_front();
            match (to, packet) {
                (To::Server, Some((_, Packet::Bytes(bytes)))) => {
                    if !wire.is_served {
                        continue;
                    }
                    wire.asked.extend(bytes);
                    drop(wires);
                    self.hear(number);
                }
                (To::Server, Some((_, Packet::End))) => {
                    drop(wires.all.remove(&number));
                    return;
                }
                (To::Client, Some((_, packet))) => {
                    match packet {
                        Packet::Bytes(bytes) if wire.end.is_none() => wire.arrived.extend(bytes),
                        Packet::End if wire.end.is_none() => wire.end = Some(End::Closed),
                        _ => {}
                    }
                    let reader = wire.reader.take();
                    drop(wires);
                    reader.into_iter().for_each(Waker::wake);
                }
                (_, None) => return,
            }
        }
    }

    /// The server carries out the commands that have come.
    fn hear(self: &Arc<Self>, number: u64) {
        loop {
            let words = {
                let mut wires = lock(&self.wires);
                let Some(wire) = wires.all.get_mut(&number).filter(|wire| wire.is_served) else { return };
                resp::next_command(&mut wire.asked)
            };
            let Some(words) = words else { return };
            let reply = self.execute(number, &words);
            self.reply(number, &reply);
        }
    }

    /// Ends a connection at once: both sides hear of it, or neither.
    pub(super) fn break_off(self: &Arc<Self>, number: u64, is_told: bool) {
        let Some(client) = self.let_die(number) else { return };
        self.record.touch(client, self.time.now());
        if !is_told {
            return;
        }
        let mut wires = lock(&self.wires);
        let Some(wire) = wires.all.get_mut(&number) else { return };
        wire.is_served = false;
        wire.channels.clear();
        let mut reader = None;
        if wire.end.is_none() {
            (wire.end, reader) = (Some(End::Reset), wire.reader.take());
        }
        drop(wires);
        reader.into_iter().for_each(Waker::wake);
    }

    /// A connection carries nothing any more, and nobody says so. Returns its client.
    pub(super) fn let_die(&self, number: u64) -> Option<usize> {
        let mut wires = lock(&self.wires);
        let wire = wires.all.get_mut(&number)?;
        for way in [&mut wire.there, &mut wire.back] {
            way.is_dead = true;
            way.under_way.clear();
        }
        Some(wire.client)
    }

    /// What a server sends on a client's connections gets lost, and nobody hears of it.
    pub(super) fn silence(&self, client: usize) {
        for wire in lock(&self.wires).all.values_mut().filter(|wire| wire.client == client) {
            wire.back.is_dead = true;
            wire.back.under_way.clear();
        }
    }

    /// The connections for which that holds.
    pub(super) fn wires_where(&self, is_meant: impl Fn(&Wire) -> bool) -> Vec<u64> {
        let wires = lock(&self.wires);
        wires.all.iter().filter(|(_, wire)| is_meant(wire)).map(|(number, _)| *number).collect()
    }

    /// Of the connections on which a client hears of its turns, the one on which it has said nothing for longest.
    pub(super) fn most_idle(&self, client: usize) -> Option<u64> {
        let wires = lock(&self.wires);
        let alive = wires.all.iter().filter(|(_, wire)| {
            wire.client == client
                && !wire.channels.is_empty()
                && wire.is_served
                && wire.end.is_none()
                && !wire.there.is_dead
        });
        alive.min_by_key(|(_, wire)| wire.there.last).map(|(number, _)| *number)
    }

    pub(super) fn pause(&self, client: usize) -> Duration {
        let slow = lock(&self.sky).faults.values().find_map(|fault| match fault {
            Fault::Slow { client: of, delay } if *of == client => Some(ms(*delay)),
            _ => None,
        });
        let longest = u64::try_from(slow.unwrap_or(self.delay).as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(10_000 + lock(&self.dice[client]).below(longest))
    }

    /// A message that takes long may cost a client its holds.
    fn note_late(&self, client: usize, at: Moment) {
        if at.since(self.time.now()) > self.ttl / 20 {
            self.record.touch(client, at);
        }
    }
}
