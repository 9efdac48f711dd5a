//! A tool call with a credential that a person gave for it.

use super::CallTool;
use crate::{
    run::{Begin, Operation, OperationContext},
    vocabulary::{Digest, ErrorKind, OperationError, OperationId, Resource, Spent, ToolResult},
};

/// A tool call with the credential that answered a question. The journal records that a credential
/// was given, and never the credential.
#[derive(Debug)]
pub struct CallAuthenticated {
    call: CallTool,
    /// The question that was answered with the credential.
    asked: OperationId,
}

impl CallAuthenticated {
    pub(super) fn new(call: CallTool, asked: OperationId) -> Self {
        Self { call, asked }
    }
}

impl Operation for CallAuthenticated {
    type Output = ToolResult;

    fn kind(&self) -> &'static str {
        self.call.kind()
    }

    fn name(&self) -> &str {
        self.call.name()
    }

    fn digest(&self) -> Digest {
        self.call.digest()
    }

    fn resource(&self) -> Option<Resource> {
        self.call.resource()
    }

    fn spent(result: &ToolResult) -> Spent {
        CallTool::spent(result)
    }

    fn begin(self, cx: OperationContext) -> Begin<ToolResult> {
        let credential = cx.ports.credential(cx.run, self.asked);
        // A call that an earlier life began is not refused because its credential is lost.
        if credential.is_none() && cx.started.is_none() {
            let message = "the credential was lost with the process to which it was given";
            let error = OperationError::new(ErrorKind::Authentication, message);
            return Begin::Ready(Err(error.retryable()));
        }
        self.call.begin_with(cx, credential)
    }
}
