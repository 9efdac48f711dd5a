//! Code that is made from settings, under the names that registries know.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    contract::{InterceptorHandle, ModelHandle, ToolHandle, ToolsetHandle},
    run::{BehaviorHandle, PolicyHandle},
};

/// Makes a thing from its settings; the error says what is wrong with them.
type Make<S, T> = Arc<dyn Fn(&S) -> Result<T, String> + Send + Sync>;
/// Makes a thing of this name from its settings; the error says what is wrong with them.
type MakeNamed<T> = Arc<dyn Fn(&str, &Map<String, Value>) -> Result<T, String> + Send + Sync>;

pub(super) type MakeBehavior = Make<Value, BehaviorHandle>;
pub(super) type MakePolicy = Make<Value, PolicyHandle>;
pub(super) type MakeModel = Make<Map<String, Value>, ModelHandle>;
pub(super) type MakeInterceptor = Make<Map<String, Value>, InterceptorHandle>;
pub(super) type MakeTool = MakeNamed<ToolHandle>;
pub(super) type MakeToolset = MakeNamed<ToolsetHandle>;
