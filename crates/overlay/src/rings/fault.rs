//! What a guest can do wrong with a ring.

/// Why a ring was stopped. Each is the driver's mistake or an attack: a correct driver never causes
/// one, so nothing is guessed and nothing repaired; the ring rests until it is set up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// More buffers made available than the ring has entries.
    #[error("the available index jumped")]
    IndexJump,
    /// A chain's head or next is not in the table.
    #[error("a descriptor outside of its table")]
    Index,
    /// More descriptors than the table has: a loop.
    #[error("a chain without an end")]
    Loop,
    /// A buffer that is not (wholly) the guest's memory, or wraps round the last address.
    #[error("a buffer outside of the guest's memory")]
    Address,
    /// A buffer of no bytes.
    #[error("a buffer of no bytes")]
    Empty,
    /// Longer than any frame, with all of its buffers.
    #[error("a chain longer than any frame")]
    Giant,
    /// Buffers to receive in that are too small for frames, however many.
    #[error("buffers that are too small for any frame")]
    Cramped,
    /// A buffer to read where one to write belongs, or the other way round.
    #[error("a buffer of the wrong direction")]
    Direction,
    /// An indirect table that was not negotiated, lies in another one or has no whole descriptors.
    #[error("an indirect table where none may be")]
    Indirect,
    /// Its monitor has made an eventfd block, and filled it.
    #[error("an eventfd that blocks")]
    Blocked,
    /// The memory was truncated by its owner.
    #[error("the guest's memory was truncated under the ring")]
    Truncated,
}
