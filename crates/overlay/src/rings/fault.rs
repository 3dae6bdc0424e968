//! Errors of a guest's ring.

/// Why a ring was stopped. A correct driver never causes a fault, so nothing is repaired: the ring stays stopped until it
/// is set up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the available index jumped")]
    IndexJump,
    #[error("a descriptor outside of its table")]
    Index,
    #[error("a chain without an end")]
    Loop,
    /// Partly outside, or wrapping around the last address.
    #[error("a buffer outside of the guest's memory")]
    Address,
    #[error("a buffer of no bytes")]
    Empty,
    #[error("a chain longer than any frame")]
    Giant,
    #[error("buffers that are too small for any frame")]
    Cramped,
    #[error("a buffer of the wrong direction")]
    Direction,
    /// Not negotiated, nested, or without whole descriptors.
    #[error("an indirect table where none may be")]
    Indirect,
    /// The VMM has made an eventfd block, and filled it.
    #[error("an eventfd that blocks")]
    Blocked,
    #[error("the guest's memory was truncated under the ring")]
    Truncated,
}
