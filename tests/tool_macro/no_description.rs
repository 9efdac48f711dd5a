use ghostlight::tool;

#[tool(effect = "read")]
async fn add_vat(net: f64) -> f64 {
    net * 1.19
}

fn main() {}
