//! A sentence encoder of a few kilobytes, in the layout in which encoders are published.

use std::{fs, path::Path};

const PIECES: [&str; 16] = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "dog", "car", "##s", "run", "##ning", "東",
    "naive", ",", "!", "e",
];
const SIZE: usize = 8;
const WIDE: usize = 16;
const LAYERS: usize = 2;
const POSITIONS: usize = 6;

/// Writes the model into this folder. The numbers of its tensors come from a formula.
pub(crate) fn write(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let config = format!(
        r#"{{"model_type": "bert", "hidden_size": {SIZE}, "intermediate_size": {WIDE}, "num_hidden_layers": {LAYERS},
        "num_attention_heads": 2, "max_position_embeddings": {POSITIONS}, "hidden_act": "gelu", "layer_norm_eps": 1e-12}}"#
    );
    fs::write(folder.join("config.json"), config).unwrap();
    let numbered = PIECES.iter().enumerate();
    let pieces: Vec<String> = numbered
        .map(|(number, piece)| format!("{piece:?}: {number}"))
        .collect();
    let tokenizer = format!(
        r#"{{"model": {{"type": "WordPiece", "unk_token": "[UNK]", "vocab": {{{}}}}},
        "normalizer": {{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "lowercase": true}}}}"#,
        pieces.join(", ")
    );
    fs::write(folder.join("tokenizer.json"), tokenizer).unwrap();
    fs::write(folder.join("model.safetensors"), weights()).unwrap();
}

/// The tensors: the names and shapes as JSON, after its length, and then the numbers.
fn weights() -> Vec<u8> {
    let mut tensors: Vec<(String, Vec<usize>)> = Vec::new();
    let mut add = |name: String, shape: &[usize]| tensors.push((name, shape.to_vec()));
    add(
        "embeddings.word_embeddings.weight".into(),
        &[PIECES.len(), SIZE],
    );
    add(
        "embeddings.position_embeddings.weight".into(),
        &[POSITIONS, SIZE],
    );
    add("embeddings.token_type_embeddings.weight".into(), &[2, SIZE]);
    add("embeddings.LayerNorm.weight".into(), &[SIZE]);
    add("embeddings.LayerNorm.bias".into(), &[SIZE]);
    for layer in 0..LAYERS {
        for (part, out, from) in [
            ("attention.self.query", SIZE, SIZE),
            ("attention.self.key", SIZE, SIZE),
            ("attention.self.value", SIZE, SIZE),
            ("attention.output.dense", SIZE, SIZE),
            ("intermediate.dense", WIDE, SIZE),
            ("output.dense", SIZE, WIDE),
        ] {
            add(format!("encoder.layer.{layer}.{part}.weight"), &[out, from]);
            add(format!("encoder.layer.{layer}.{part}.bias"), &[out]);
        }
        for part in ["attention.output.LayerNorm", "output.LayerNorm"] {
            add(format!("encoder.layer.{layer}.{part}.weight"), &[SIZE]);
            add(format!("encoder.layer.{layer}.{part}.bias"), &[SIZE]);
        }
    }
    let (mut about, mut numbers) = (Vec::new(), Vec::new());
    for (place, (name, shape)) in tensors.iter().enumerate() {
        let begin = numbers.len();
        let middle = if name.ends_with("LayerNorm.weight") {
            1.0
        } else {
            0.0
        };
        for at in 0..shape.iter().product() {
            let number = (1.7 * place as f64 + 0.9 * at as f64).sin() + middle;
            numbers.extend((number as f32).to_le_bytes());
        }
        about.push(format!(
            r#"{name:?}: {{"dtype": "F32", "shape": {shape:?}, "data_offsets": [{begin}, {}]}}"#,
            numbers.len()
        ));
    }
    let mut about = format!("{{{}}}", about.join(", "));
    about.push_str(&" ".repeat((8 - about.len() % 8) % 8));
    let mut file = (about.len() as u64).to_le_bytes().to_vec();
    file.extend(about.as_bytes());
    file.extend(numbers);
    file
}
