//! The network: layers of attention, as in Devlin and others, *BERT* (2019).

use std::ops::Range;

use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut1, Axis, linalg::general_mat_mul};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

/// The bounds of a model's sizes. The largest encoders of this kind have 24 layers of 1,024 numbers.
const MAX_LAYERS: usize = 48;

/// The sizes of a network, from its `config.json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Sizes {
    model_type: String,
    pub(super) hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    pub(super) max_position_embeddings: usize,
    hidden_act: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    layer_norm_eps: f32,
}

fn absolute() -> String {
    String::from("absolute")
}

impl Sizes {
    pub(super) fn read(json: &[u8]) -> Result<Self, String> {
        let sizes: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        for (what, found, wanted) in [
            ("model_type", &sizes.model_type, "bert"),
            ("hidden_act", &sizes.hidden_act, "gelu"),
            (
                "position_embedding_type",
                &sizes.position_embedding_type,
                "absolute",
            ),
        ] {
            if found != wanted {
                return Err(format!("its {what} is `{found}`, not `{wanted}`"));
            }
        }
        let heads = sizes.num_attention_heads;
        if heads == 0 || sizes.hidden_size == 0 || !sizes.hidden_size.is_multiple_of(heads) {
            return Err(format!(
                "{} numbers cannot be divided among {heads} heads",
                sizes.hidden_size
            ));
        }
        if sizes.num_hidden_layers > MAX_LAYERS || sizes.max_position_embeddings < 3 {
            return Err(format!(
                "it has {} layers and {} positions: at most {MAX_LAYERS} layers and at least 3 positions are possible",
                sizes.num_hidden_layers, sizes.max_position_embeddings
            ));
        }
        Ok(sizes)
    }
}

/// How the states of a window become its vector.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pooling {
    Mean,
    First,
}

#[derive(Debug)]
pub(super) struct Bert {
    words: Array2<f32>,
    /// Positions, with the vector of the first segment already added.
    positions: Array2<f32>,
    first: Norm,
    layers: Vec<Layer>,
    heads: usize,
}

#[derive(Debug)]
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    joined: Linear,
    attended: Norm,
    wide: Linear,
    narrow: Linear,
    out: Norm,
}

#[derive(Debug)]
struct Linear {
    /// From input to output.
    weights: Array2<f32>,
    bias: Array1<f32>,
}

#[derive(Debug)]
struct Norm {
    weights: Array1<f32>,
    bias: Array1<f32>,
    epsilon: f32,
}

/// The tensors of a file, read by their names and with the expected sizes.
struct Weights<'a> {
    file: SafeTensors<'a>,
    prefix: &'static str,
    epsilon: f32,
}

impl Weights<'_> {
    fn tensor(&self, name: &str, wanted: &[usize]) -> Result<Vec<f32>, String> {
        let name = format!("{}{name}", self.prefix);
        let tensor = self
            .file
            .tensor(&name)
            .map_err(|error| format!("{name}: {error}"))?;
        if tensor.shape() != wanted {
            return Err(format!(
                "{name} has the shape {:?}, not {wanted:?}",
                tensor.shape()
            ));
        }
        match tensor.dtype() {
            Dtype::F32 => {
                let parts = tensor.data().as_chunks::<4>().0;
                Ok(parts.iter().map(|part| f32::from_le_bytes(*part)).collect())
            }
            Dtype::BF16 => {
                let parts = tensor.data().as_chunks::<2>().0;
                let wide =
                    |part: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*part)) << 16);
                Ok(parts.iter().map(wide).collect())
            }
            Dtype::F16 => {
                let parts = tensor.data().as_chunks::<2>().0;
                Ok(parts
                    .iter()
                    .map(|part| of_half(u16::from_le_bytes(*part)))
                    .collect())
            }
            other => Err(format!(
                "{name} holds numbers of the kind {other:?}: only F32, F16 and BF16 are read"
            )),
        }
    }

    fn vector(&self, name: &str, size: usize) -> Result<Array1<f32>, String> {
        Ok(Array1::from_vec(self.tensor(name, &[size])?))
    }

    fn table(&self, name: &str, rows: usize, columns: usize) -> Result<Array2<f32>, String> {
        let numbers = self.tensor(name, &[rows, columns])?;
        Array2::from_shape_vec((rows, columns), numbers).map_err(|error| format!("{name}: {error}"))
    }

    /// A file stores the weights of each output together. The product is faster with those of each input together.
    fn linear(&self, name: &str, inputs: usize, outputs: usize) -> Result<Linear, String> {
        let stored = self.table(&format!("{name}.weight"), outputs, inputs)?;
        Ok(Linear {
            weights: stored.t().as_standard_layout().into_owned(),
            bias: self.vector(&format!("{name}.bias"), outputs)?,
        })
    }

    fn norm(&self, name: &str, size: usize) -> Result<Norm, String> {
        Ok(Norm {
            weights: self.vector(&format!("{name}.weight"), size)?,
            bias: self.vector(&format!("{name}.bias"), size)?,
            epsilon: self.epsilon,
        })
    }
}

/// A number of 16 bits as IEEE 754 stores it.
fn of_half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, part) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    sign * match exponent {
        0 => part * (-24_f32).exp2(),
        31 if part == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (part / 1024.0 + 1.0) * ((exponent - 15) as f32).exp2(),
    }
}

impl Bert {
    /// Reads a `model.safetensors` of these sizes, whose vocabulary has at least `vocabulary` pieces.
    pub(super) fn read(bytes: &[u8], sizes: &Sizes, vocabulary: usize) -> Result<Self, String> {
        let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
        let table = "embeddings.word_embeddings.weight";
        let mut prefixes = ["", "bert.", "model."].into_iter();
        let prefix = prefixes
            .find(|prefix| file.tensor(&format!("{prefix}{table}")).is_ok())
            .ok_or_else(|| format!("it has no {table}"))?;
        let name = format!("{prefix}{table}");
        let shape = file.tensor(&name).map_err(|error| error.to_string())?;
        let pieces = shape.shape().first().copied().unwrap_or_default();
        if pieces < vocabulary {
            return Err(format!(
                "it knows {pieces} pieces, and its tokenizer has {vocabulary}"
            ));
        }
        let weights = Weights {
            file,
            prefix,
            epsilon: sizes.layer_norm_eps,
        };
        let (size, wide) = (sizes.hidden_size, sizes.intermediate_size);
        let layer = |number: usize| {
            let name = |part: &str| format!("encoder.layer.{number}.{part}");
            Ok(Layer {
                query: weights.linear(&name("attention.self.query"), size, size)?,
                key: weights.linear(&name("attention.self.key"), size, size)?,
                value: weights.linear(&name("attention.self.value"), size, size)?,
                joined: weights.linear(&name("attention.output.dense"), size, size)?,
                attended: weights.norm(&name("attention.output.LayerNorm"), size)?,
                wide: weights.linear(&name("intermediate.dense"), size, wide)?,
                narrow: weights.linear(&name("output.dense"), wide, size)?,
                out: weights.norm(&name("output.LayerNorm"), size)?,
            })
        };
        let segment = "embeddings.token_type_embeddings.weight";
        let segment = weights.table(segment, 2, size)?;
        let positions = "embeddings.position_embeddings.weight";
        let positions = weights.table(positions, sizes.max_position_embeddings, size)?;
        Ok(Self {
            words: weights.table(table, pieces, size)?,
            positions: positions + segment.row(0),
            first: weights.norm("embeddings.LayerNorm", size)?,
            layers: (0..sizes.num_hidden_layers)
                .map(layer)
                .collect::<Result<_, String>>()?,
            heads: sizes.num_attention_heads,
        })
    }

    /// The vectors of these windows, each of length 1. The windows are computed together, since the weights are read
    /// once for all of them; the vector of a window does not depend on the others.
    pub(super) fn vectors(&self, windows: &[&[u32]], pooling: Pooling) -> Vec<Vec<f32>> {
        let count = windows.iter().map(|window| window.len()).sum();
        let mut states = Array2::zeros((count, self.words.ncols()));
        let pieces = windows
            .iter()
            .flat_map(|window| window.iter().zip(self.positions.rows()));
        for (mut state, (piece, position)) in states.rows_mut().into_iter().zip(pieces) {
            state += &self.words.row(*piece as usize);
            state += &position;
        }
        self.first.apply(&mut states);
        for layer in &self.layers {
            states = layer.apply(states, windows, self.heads);
        }
        let mut from = 0;
        let pooled = windows.iter().map(|window| {
            let rows = from..from + window.len();
            from = rows.end;
            let state = match pooling {
                Pooling::First => states.row(rows.start).to_owned(),
                Pooling::Mean => part(&states, &rows, &(0..states.ncols())).sum_axis(Axis(0)),
            };
            let length = state.dot(&state).sqrt();
            (state / length.max(f32::MIN_POSITIVE)).to_vec()
        });
        pooled.collect()
    }
}

impl Layer {
    fn apply(&self, states: Array2<f32>, windows: &[&[u32]], heads: usize) -> Array2<f32> {
        let mut query = self.query.apply(&states);
        let (key, value) = (self.key.apply(&states), self.value.apply(&states));
        let size = states.ncols() / heads;
        query *= 1.0 / (size as f32).sqrt();
        let mut mixed = Array2::zeros(states.raw_dim());
        let mut from = 0;
        for window in windows {
            let rows = from..from + window.len();
            from = rows.end;
            for head in 0..heads {
                let columns = head * size..(head + 1) * size;
                let keys = part(&key, &rows, &columns);
                let mut weights = part(&query, &rows, &columns).dot(&keys.t());
                weights.rows_mut().into_iter().for_each(softmax);
                let mut mixed = mixed.view_mut();
                mixed.slice_axis_inplace(Axis(0), rows.clone().into());
                mixed.slice_axis_inplace(Axis(1), columns.clone().into());
                let values = part(&value, &rows, &columns);
                general_mat_mul(1.0, &weights, &values, 0.0, &mut mixed);
            }
        }
        let mut attended = self.joined.apply(&mixed);
        attended += &states;
        self.attended.apply(&mut attended);
        let mut wide = self.wide.apply(&attended);
        wide.mapv_inplace(gelu);
        let mut out = self.narrow.apply(&wide);
        out += &attended;
        self.out.apply(&mut out);
        out
    }
}

impl Linear {
    fn apply(&self, states: &Array2<f32>) -> Array2<f32> {
        let mut out = states.dot(&self.weights);
        out += &self.bias;
        out
    }
}

impl Norm {
    fn apply(&self, states: &mut Array2<f32>) {
        for mut state in states.rows_mut() {
            let size = state.len() as f32;
            let mean = state.sum() / size;
            state -= mean;
            let variance = state.dot(&state) / size;
            state *= 1.0 / (variance + self.epsilon).sqrt();
            state *= &self.weights;
            state += &self.bias;
        }
    }
}

/// These rows and columns of a matrix.
fn part<'m>(
    matrix: &'m Array2<f32>,
    rows: &Range<usize>,
    columns: &Range<usize>,
) -> ArrayView2<'m, f32> {
    let mut view = matrix.view();
    view.slice_axis_inplace(Axis(0), rows.clone().into());
    view.slice_axis_inplace(Axis(1), columns.clone().into());
    view
}

fn softmax(mut numbers: ArrayViewMut1<'_, f32>) {
    let most = numbers.fold(f32::NEG_INFINITY, |most, number| most.max(*number));
    numbers.mapv_inplace(|number| (number - most).exp());
    let sum = numbers.sum();
    numbers /= sum;
}

/// The Gaussian error linear unit (Hendrycks and Gimpel, 2016), with the error function of Abramowitz and Stegun,
/// *Handbook of Mathematical Functions*, 7.1.26: its error is at most 1.5e-7.
fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let series = t
        * (0.254_829_6
            + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
    let erf = (1.0 - series * (-z * z).exp()).copysign(x);
    0.5 * x * (1.0 + erf)
}
