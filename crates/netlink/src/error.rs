//! Errors: of the socket, the kernel's refusal of a request, or an unreadable answer.
//!
//! A refusal always carries three things a person needs: what was asked ("create veth link eth0"),
//! the errno's text, and, where the kernel sent one, its extended acknowledgement in words.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{action}: {source}")]
    Socket {
        action: &'static str,
        source: io::Error,
    },
    #[error("{action}: {source}{}", detail.as_deref().map(|d| format!(" ({d})")).unwrap_or_default())]
    Refused {
        /// The request in words: operation and object.
        action: String,
        source: io::Error,
        /// The kernel's extended acknowledgement, if it gave one.
        detail: Option<String>,
    },
    #[error("{action}: unreadable netlink answer: {reason}")]
    Malformed { action: String, reason: String },
    #[error("{} of {requests} netlink requests failed; first: {}", errors.len(), errors[0])]
    Several {
        /// Every failure, in the order of the requests. Never empty.
        errors: Vec<Error>,
        requests: usize,
    },
}

impl Error {
    /// The errno behind a refusal, so that callers can treat `EEXIST` or `ENODEV` as they need.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Socket { source, .. } | Self::Refused { source, .. } => source.raw_os_error(),
            Self::Malformed { .. } => None,
            Self::Several { errors, .. } => errors[0].errno(),
        }
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self.errno(), Some(libc::ENODEV | libc::ENOENT))
    }

    /// The error of a call of the socket, by what was to be done.
    pub(crate) fn socket<E: Into<io::Error>>(action: &'static str) -> impl Fn(E) -> Self {
        move |error| Self::Socket {
            action,
            source: error.into(),
        }
    }

    /// Joins the failures of a batch of `requests` into one error; `Ok` when there were none.
    pub(crate) fn join(mut errors: Vec<Self>, requests: usize) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several { errors, requests }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(errno: i32, detail: Option<&str>) -> Error {
        Error::Refused {
            action: "create veth link eth0".into(),
            source: io::Error::from_raw_os_error(errno),
            detail: detail.map(Into::into),
        }
    }

    #[test]
    fn a_refusal_names_action_errno_and_detail() {
        assert_eq!(
            refused(libc::EEXIST, None).to_string(),
            "create veth link eth0: File exists (os error 17)"
        );
        assert_eq!(
            refused(libc::EINVAL, Some("Invalid MTU")).to_string(),
            "create veth link eth0: Invalid argument (os error 22) (Invalid MTU)"
        );
    }

    #[test]
    fn joining_keeps_a_single_error_and_counts_several() {
        assert!(Error::join(vec![], 3).is_ok());
        let one = Error::join(vec![refused(libc::ENODEV, None)], 3).unwrap_err();
        assert!(matches!(one, Error::Refused { .. }) && one.is_not_found());
        let two = Error::join(vec![refused(1, None), refused(2, None)], 3).unwrap_err();
        assert!(
            two.to_string()
                .starts_with("2 of 3 netlink requests failed; first: create veth")
        );
        assert_eq!(two.errno(), Some(1));
    }
}
