//! The operations of an OpenAPI document as tools.
//!
//! A small server stands for the API. The offline model picks the operation by its words; the server sees the key that
//! the program gave, and the model does not.
#![allow(clippy::print_stdout)]

use ghostlight::{
    contract::ToolsetHandle,
    prelude::*,
    tools::{OpenApi, OpenApiSpec},
    vocabulary::ToolFilter,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener));

    let settings = OpenApiSpec::new("examples/documents/parcels.yaml")
        .base_url(format!("http://{address}/v1"))
        .allow_address("127.0.0.1")
        .credential("key", "a-key-of-this-program");
    let parcels = ToolsetHandle::new(OpenApi::open(settings)?)
        .only(ToolFilter::names(["track_parcel", "send_parcel"]));
    for tool in parcels.tools().map_err(|error| error.message)?.iter() {
        let definition = tool.definition();
        println!(
            "{} ({:?}): {:?}",
            definition.name, definition.effect, definition.description
        );
    }

    let desk = Agent::new("desk")
        .model(OfflineModel)
        .toolset("parcels", parcels);
    println!("{}", desk.run("Where is parcel 4711?").await?);
    Ok(())
}

/// Answers each request with the line that asked for it.
async fn serve(listener: TcpListener) -> std::io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut request = vec![0; 8_192];
        let read = stream.read(&mut request).await?;
        let request = String::from_utf8_lossy(&request[..read]).into_owned();
        let line = request.lines().next().unwrap_or_default();
        let has_key = request.contains("x-api-key: a-key-of-this-program");
        println!("the server was asked: {line} (with the key: {has_key})");
        let body = r#"{"number": 4711, "place": "the depot in Köln"}"#;
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await?;
    }
}
