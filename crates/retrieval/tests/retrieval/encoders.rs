//! A sentence encoder gives the vectors that the same network gives elsewhere. The expected numbers were computed with
//! NumPy in 64 bits, and the pieces of words by the Python package `tokenizers`.

use ghostlight_actors::contract::{EmbedderHandle, EmbeddingKind, EmbeddingPurpose};
use ghostlight_retrieval::{EncoderError, SentenceEncoder};

use crate::{folder::Folder, tiny_model};

/// Texts with their vectors; the first has seven pieces, and the model takes four at once.
const EXPECTED: [(&str, [f32; 8]); 3] = [
    (
        "the cats, running!",
        [
            -0.333_048, -0.325_631, 0.048_336, 0.376_398, -0.198_879, -0.046_763, 0.621_801,
            -0.458_973,
        ],
    ),
    (
        "Naïve 東 \u{200b}CAT",
        [
            -0.265_136, -0.357_202, 0.050_472, 0.418_993, -0.156_034, -0.222_426, 0.624_035,
            -0.400_959,
        ],
    ),
    (
        "the dog",
        [
            -0.485_216, -0.226_466, 0.044_107, 0.251_626, -0.146_309, 0.422_982, 0.380_583,
            -0.550_322,
        ],
    ),
];
/// The vector of `the dog` by its first state.
const FIRST: [f32; 8] = [
    -0.353_469, -0.312_841, 0.047_381, 0.357_56, -0.211_061, 0.014_26, 0.613_822, -0.474_941,
];

fn assert_near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    let near = found
        .iter()
        .zip(expected)
        .all(|(a, b)| (a - b).abs() < 2e-5);
    assert!(near, "{found:?} is not {expected:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_has_the_vector_of_the_same_network_elsewhere_alone_and_among_others() {
    let folder = Folder::new("encoder");
    tiny_model::write(folder.path());
    let embedder = EmbedderHandle::new(SentenceEncoder::open(folder.path()).unwrap());
    assert_eq!(embedder.space().kind, EmbeddingKind::Semantic);
    let mut alone = Vec::new();
    for (text, expected) in EXPECTED {
        let found = embedder
            .embed_one(text, EmbeddingPurpose::Query)
            .await
            .unwrap();
        assert_near(&found, &expected);
        alone.push(found);
    }
    let texts: Vec<&str> = EXPECTED
        .iter()
        .cycle()
        .take(600)
        .map(|(text, _)| *text)
        .collect();
    let together = embedder
        .embed(&texts, EmbeddingPurpose::Document)
        .await
        .unwrap();
    assert!(
        together
            .iter()
            .zip(alone.iter().cycle())
            .all(|(a, b)| a == b)
    );

    std::fs::create_dir(folder.path().join("1_Pooling")).unwrap();
    let pooling = r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#;
    std::fs::write(folder.path().join("1_Pooling/config.json"), pooling).unwrap();
    let first = EmbedderHandle::new(SentenceEncoder::open(folder.path()).unwrap());
    assert_ne!(first.space(), embedder.space());
    let found = first
        .embed_one("the dog", EmbeddingPurpose::Query)
        .await
        .unwrap();
    assert_near(&found, &FIRST);
}

#[tokio::test]
async fn a_prefix_is_part_of_the_text_and_of_the_space() {
    let folder = Folder::new("encoder-prefix");
    tiny_model::write(folder.path());
    let plain = SentenceEncoder::open(folder.path()).unwrap();
    let prefixed = EmbedderHandle::new(plain.clone().prefixes("the ", ""));
    let plain = EmbedderHandle::new(plain);
    assert_ne!(plain.space(), prefixed.space());
    let found = prefixed
        .embed_one("dog", EmbeddingPurpose::Query)
        .await
        .unwrap();
    assert_near(&found, &EXPECTED[2].1);
    let document = prefixed
        .embed_one("dog", EmbeddingPurpose::Document)
        .await
        .unwrap();
    assert_eq!(
        document,
        plain
            .embed_one("dog", EmbeddingPurpose::Query)
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn hostile_texts_have_vectors_too() {
    let folder = Folder::new("encoder-hostile");
    tiny_model::write(folder.path());
    let embedder = EmbedderHandle::new(SentenceEncoder::open(folder.path()).unwrap());
    let long = "dog ".repeat(500_000);
    let texts = [
        "",
        "\0\u{fffd}\u{202e}",
        "👩‍👩‍👧‍👦 مرحبا हिन्दी",
        &"x".repeat(1 << 20),
        &long,
        "[SEP] [CLS]",
    ];
    let vectors = embedder
        .embed(&texts, EmbeddingPurpose::Document)
        .await
        .unwrap();
    for vector in &vectors {
        let length: f32 = vector.iter().map(|number| number * number).sum();
        assert!((length - 1.0).abs() < 1e-4, "{vector:?}");
    }
    // Text that looks like a special token is no special token.
    assert_ne!(vectors[0], vectors[5]);
}

#[test]
fn a_model_that_cannot_be_used_is_told_with_its_file() {
    let folder = Folder::new("encoder-broken");
    tiny_model::write(folder.path());
    let file = |name: &str| folder.path().join(name);
    let whole = |name: &str| std::fs::read(file(name)).unwrap();
    let (config, tokenizer, weights) = (
        whole("config.json"),
        whole("tokenizer.json"),
        whole("model.safetensors"),
    );
    let replaced = |bytes: &[u8], from: &str, to: &str| {
        String::from_utf8(bytes.to_vec())
            .unwrap()
            .replace(from, to)
            .into_bytes()
    };
    let cut = weights[..weights.len() - 1].to_vec();
    let mut huge = weights.clone();
    huge[..8].fill(0xff);
    for (name, bytes, problem) in [
        ("config.json", b"{".to_vec(), "EOF"),
        (
            "config.json",
            replaced(&config, "\"bert\"", "\"gpt2\""),
            "model_type",
        ),
        (
            "config.json",
            replaced(&config, "\"hidden_size\": 8", "\"hidden_size\": 12"),
            "shape",
        ),
        (
            "config.json",
            replaced(&config, "heads\": 2", "heads\": 0"),
            "heads",
        ),
        (
            "config.json",
            replaced(&config, "layers\": 2", "layers\": 3"),
            "encoder.layer.2",
        ),
        (
            "tokenizer.json",
            replaced(&tokenizer, "\"WordPiece\"", "\"BPE\""),
            "BPE",
        ),
        (
            "tokenizer.json",
            replaced(&tokenizer, "\"[CLS]\"", "\"[C]\""),
            "[CLS]",
        ),
        (
            "tokenizer.json",
            replaced(&tokenizer, "\"e\": 15", "\"e\": 4000000000"),
            "pieces",
        ),
        ("model.safetensors", cut, "model.safetensors"),
        ("model.safetensors", huge, "model.safetensors"),
        ("model.safetensors", Vec::new(), "model.safetensors"),
    ] {
        let good = whole(name);
        std::fs::write(file(name), bytes).unwrap();
        let error = SentenceEncoder::open(folder.path()).unwrap_err();
        std::fs::write(file(name), good).unwrap();
        assert!(matches!(error, EncoderError::Unusable { .. }), "{error}");
        assert!(error.to_string().contains(problem), "{problem}: {error}");
    }
    std::fs::remove_file(file("model.safetensors")).unwrap();
    let error = SentenceEncoder::open(folder.path()).unwrap_err();
    assert!(matches!(error, EncoderError::Unreadable { .. }), "{error}");
}
