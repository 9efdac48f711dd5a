use ghostlight::tool;

/// Deletes a file.
#[tool(approval = "Delete {file}?")]
async fn delete(path: String) {
    drop(path);
}

/// Reads a file.
#[tool(effect = "reads")]
async fn read(path: &str) -> String {
    path.to_owned()
}

fn main() {}
