//! Packets that cards stamp by hardware: when they leave, and when they come in.
//!
//! Nearly every card with a clock of its own (PHC) stamps event messages of the Precision Time Protocol, and many stamp
//! nothing else that they receive. So the packets are such messages ([`frame`]). They pass no router: both cards are on one
//! Ethernet.
//!
//! A card with one register for stamps skips packets that come before it was read. They are counted.
//!
//! Stamps are on the clocks of their cards. Nothing is converted here: that takes a comparison of both clocks.

mod frame;
mod interface;
pub mod sink;
pub mod source;
