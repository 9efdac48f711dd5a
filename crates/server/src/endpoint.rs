//! The table of endpoints. One line gives an endpoint its route, its access, and its place in the OpenAPI document.

use axum::{
    Router,
    handler::Handler,
    http::Method,
    middleware::from_fn_with_state,
    routing::{MethodFilter, on},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{access, caller::Scope, problem::Problem, server::Shared};

/// The callers that may use an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody.
    Public,
    /// Holders of a key with this scope, and the operator.
    Needs(Scope),
}

/// One endpoint of the server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Endpoint {
    /// The method.
    pub method: Method,
    /// The path, with names in braces for its variable parts.
    pub path: &'static str,
    /// The callers that may use it.
    pub access: Access,
    /// Its purpose.
    pub summary: &'static str,
    body: Option<Schema>,
    query: Option<Schema>,
    answer: Option<Schema>,
}

/// The endpoints so far, with their router.
pub(crate) struct Endpoints {
    state: Shared,
    router: Router<Shared>,
    list: Vec<Endpoint>,
    schemas: SchemaGenerator,
}

impl Endpoints {
    pub(crate) fn new(state: Shared) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
        });
        Self {
            state,
            router: Router::new(),
            list: Vec::new(),
            schemas: settings.into_generator(),
        }
    }

    /// Adds an endpoint. There is no other way to add a route, so each route states its access.
    pub(crate) fn add<H, T>(
        mut self,
        method: Method,
        path: &'static str,
        access: Access,
        summary: &'static str,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        // Every method of this table has a filter.
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::POST);
        let gate = from_fn_with_state((self.state.clone(), access), access::check);
        self.router = self.router.route(path, on(filter, handler).layer(gate));
        self.list.push(Endpoint::new(method, path, access, summary));
        self
    }

    /// Sets the type of the last endpoint's body.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        let schema = self.schemas.subschema_for::<T>();
        if let Some(last) = self.list.last_mut() {
            last.body = Some(schema);
        }
        self
    }

    /// Sets the type of the last endpoint's query.
    pub(crate) fn asks<T: JsonSchema>(mut self) -> Self {
        // A parameter stands alone, so its schema refers to no other.
        let settings =
            SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let schema = settings.into_generator().into_root_schema_for::<T>();
        if let Some(last) = self.list.last_mut() {
            last.query = Some(schema);
        }
        self
    }

    /// Sets the type of the last endpoint's response.
    pub(crate) fn gives<T: JsonSchema>(mut self) -> Self {
        let schema = self.schemas.subschema_for::<T>();
        if let Some(last) = self.list.last_mut() {
            last.answer = Some(schema);
        }
        self
    }

    pub(crate) fn finish(mut self) -> (Router<Shared>, Vec<Endpoint>, Value) {
        let document = self.document();
        (self.router, self.list, document)
    }

    /// The OpenAPI 3.1 document of these endpoints.
    fn document(&mut self) -> Value {
        let problem = self.schemas.subschema_for::<Problem>();
        let mut paths = Map::new();
        for endpoint in &self.list {
            let operations = paths.entry(endpoint.path).or_insert_with(|| json!({}));
            operations[endpoint.method.as_str().to_ascii_lowercase()] =
                endpoint.operation(&problem);
        }
        let mut document = json!({
            "openapi": "3.1.0",
            "info": { "title": "Ghostlight", "version": env!("CARGO_PKG_VERSION") },
            "paths": paths,
            "components": {
                "schemas": self.schemas.take_definitions(true),
                "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            },
        });
        if let Some(address) = &self.state.address {
            document["servers"] = json!([{ "url": address }]);
        }
        document
    }
}

impl Endpoint {
    pub(crate) fn new(
        method: Method,
        path: &'static str,
        access: Access,
        summary: &'static str,
    ) -> Self {
        Self {
            method,
            path,
            access,
            summary,
            body: None,
            query: None,
            answer: None,
        }
    }

    fn operation(&self, problem: &Schema) -> Value {
        let json = |schema: &Schema| json!({ "application/json": { "schema": schema } });
        let mut parameters = Vec::new();
        for part in self.path.split('/') {
            let name = part
                .strip_prefix('{')
                .and_then(|name| name.strip_suffix('}'));
            if let Some(name) = name {
                let text = json!({ "type": "string" });
                parameters
                    .push(json!({ "name": name, "in": "path", "required": true, "schema": text }));
            }
        }
        let query = self
            .query
            .as_ref()
            .and_then(|schema| schema.get("properties"));
        for (name, schema) in query.and_then(Value::as_object).into_iter().flatten() {
            let about = schema.get("description").cloned().unwrap_or_default();
            parameters.push(
                json!({ "name": name, "in": "query", "description": about, "schema": schema }),
            );
        }
        let mut good = json!({ "description": "Done." });
        if let Some(answer) = &self.answer {
            good["content"] = json(answer);
        }
        let mut bad = json!({ "application/problem+json": { "schema": problem } });
        // Refusals of these endpoints have the form of their protocols.
        if ["/a2a", "/v1/"]
            .iter()
            .any(|protocol| self.path.starts_with(protocol))
        {
            bad["application/json"] = json!({});
        }
        let mut operation = json!({
            "summary": self.summary,
            "parameters": parameters,
            "responses": {
                "2XX": good,
                "default": { "description": "A problem.", "content": bad },
            },
        });
        if let Access::Needs(scope) = self.access {
            operation["security"] = json!([{ "key": [scope.as_str()] }]);
        }
        if let Some(body) = &self.body {
            operation["requestBody"] = json!({ "content": json(body) });
        }
        operation
    }
}
