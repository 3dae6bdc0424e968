//! The order of the notes.

use latlab_model::results::Note;

use super::context::Context;
use super::{actions, clock, machine, packets, run, samples, tails};

pub(crate) fn all(context: &Context<'_>) -> Vec<Note> {
    let kinds: [fn(&Context<'_>) -> Option<Note>; 31] = [
        run::state,
        run::damaged,
        run::unreadable,
        run::failed,
        clock::wrapped,
        clock::negative,
        clock::identical,
        clock::clock,
        machine::emulated,
        machine::not_kvm,
        machine::overloaded,
        machine::repeated,
        machine::invaded,
        machine::unstable,
        machine::floor,
        machine::steal_aside,
        machine::hwlat,
        machine::sensors,
        packets::miscounted,
        packets::lost,
        packets::corrupted,
        packets::duplicated,
        packets::reordered,
        actions::actions,
        tails::unreadable,
        tails::impossible,
        tails::no_room,
        tails::unknown,
        samples::few_replicates,
        samples::few_samples,
        run::unknown_cells,
    ];
    let mut notes: Vec<Note> = kinds.iter().filter_map(|kind| kind(context)).collect();
    notes.sort_by_key(|note| note.severity);
    notes
}
