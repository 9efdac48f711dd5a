//! The right to give the answer of a suspended model call.

use std::{fmt, str::FromStr};

use super::{
    OperationId, RunId,
    id_error::{IdError, serde_as_text},
};

/// The right to give the answer of a suspended model call. Its text has only letters, digits and hyphens, at most 64 for
/// operations of any run that a person could wait for; it names the request, so a call that asks for something else
/// after a crash has another ticket, unless the journal says already that the call waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelTicket {
    pub(crate) run: RunId,
    pub(crate) operation: OperationId,
    /// How many answers the call got before.
    pub(crate) number: u32,
    /// The first forty bits of the request's digest.
    pub(crate) request: u64,
}

impl ModelTicket {
    /// The run that waits.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The id of the mailbox item that brings the answer.
    pub fn item(&self) -> String {
        format!("answer/{self}")
    }
}

impl fmt::Display for ModelTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OperationId { leg, lane, number } = self.operation;
        for part in self.run.to_string().split('-') {
            f.write_str(part)?;
        }
        write!(
            f,
            "-{leg}-{lane}-{number}-{}-{:010x}",
            self.number, self.request
        )
    }
}

impl FromStr for ModelTicket {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::new("the ticket of a model call", text);
        let mut parts = text.split('-');
        let run = parts.next().ok_or_else(wrong)?;
        let run: RunId = run.parse().map_err(|_| wrong())?;
        let mut number = || parts.next()?.parse::<u32>().ok();
        let (leg, lane, place) = (number(), number(), number());
        let taken = number();
        let request = parts.next();
        let request = request.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        match (leg, lane, place, taken, request, parts.next()) {
            (Some(leg), Some(lane), Some(place), Some(number), Some(request), None)
                if request >> 40 == 0 =>
            {
                let operation = OperationId {
                    leg,
                    lane,
                    number: place,
                };
                Ok(Self {
                    run,
                    operation,
                    number,
                    request,
                })
            }
            _ => Err(wrong()),
        }
    }
}

serde_as_text!(ModelTicket);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_comes_back_from_its_text_which_providers_take_as_an_id() {
        let operation = OperationId {
            leg: 40,
            lane: 1_000,
            number: 99_999,
        };
        let ticket = ModelTicket {
            run: RunId::from_random(7),
            operation,
            number: 3,
            request: 0xfe_dcba_9876,
        };
        let text = ticket.to_string();
        assert_eq!(text.parse::<ModelTicket>().unwrap(), ticket);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        assert!(text.len() <= 64 && text.bytes().all(plain), "{text}");
        for wrong in [
            "",
            "x",
            &text[1..],
            &format!("{text}-1"),
            &format!("{text}00"),
        ] {
            assert!(wrong.parse::<ModelTicket>().is_err(), "{wrong}");
        }
    }
}
