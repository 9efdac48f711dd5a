//! A collector that takes what is exported over OTLP.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{AnyValue, KeyValue, any_value::Value},
    metrics::v1::{Metric, metric::Data},
    trace::v1::{Span, status::StatusCode},
};
use parking_lot::Mutex;
use prost::Message as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It takes what comes.
    Takes,
    /// With this status.
    Status(u16),
    /// Never.
    Hangs,
}

#[derive(Default)]
struct Taken {
    spans: Vec<Span>,
    /// The resource of the last spans.
    resource: Vec<KeyValue>,
    metrics: BTreeMap<String, Metric>,
    bodies: Vec<Vec<u8>>,
    /// The heads of requests, in small letters.
    heads: Vec<String>,
    requests: usize,
    /// The most spans of one request.
    largest: usize,
}

pub(crate) struct Collector {
    pub(crate) endpoint: String,
    answer: watch::Sender<Answer>,
    taken: Arc<Mutex<Taken>>,
    news: watch::Receiver<usize>,
}

impl Collector {
    pub(crate) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (answer, answers) = watch::channel(answer);
        let (tell, news) = watch::channel(0);
        let (taken, tell) = (Arc::<Mutex<Taken>>::default(), Arc::new(tell));
        let collecting = taken.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (taken, answers, tell) = (collecting.clone(), answers.clone(), tell.clone());
                tokio::spawn(serve(stream, taken, answers, tell));
            }
        });
        Self {
            endpoint,
            answer,
            taken,
            news,
        }
    }

    pub(crate) fn answers(&self, answer: Answer) {
        self.answer.send_replace(answer);
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.taken.lock().spans.clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.taken.lock().requests
    }

    /// Whether every request of this path, of which there are some, has this header.
    pub(crate) fn is_sent(&self, path: &str, header: &str) -> bool {
        let taken = self.taken.lock();
        let of_path = |head: &&String| head.starts_with(&format!("post {path} "));
        let mut heads = taken.heads.iter().filter(of_path).peekable();
        heads.peek().is_some() && heads.all(|head| head.lines().any(|line| line == header))
    }

    pub(crate) fn largest(&self) -> usize {
        self.taken.lock().largest
    }

    pub(crate) fn resource(&self, name: &str) -> String {
        text(&self.taken.lock().resource, name)
    }

    /// Whether any request held this text.
    pub(crate) fn heard(&self, text: &str) -> bool {
        let taken = self.taken.lock();
        let mut bodies = taken.bodies.iter();
        bodies.any(|body| body.windows(text.len()).any(|part| part == text.as_bytes()))
    }

    /// Waits until this holds of the spans.
    pub(crate) async fn until(&mut self, holds: impl Fn(&[Span]) -> bool) {
        let waits = async {
            while !holds(&self.taken.lock().spans) {
                self.news.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waits)
            .await
            .expect("spans arrive");
    }

    /// Waits for a request, whether it is answered or not.
    pub(crate) async fn asked(&mut self) {
        let waits = async {
            while self.requests() == 0 {
                self.news.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waits)
            .await
            .expect("a request arrives");
    }

    /// The points of a metric: their attributes, and their counts and sums.
    pub(crate) fn points(&self, name: &str) -> Vec<(BTreeMap<String, String>, u64, f64)> {
        let taken = self.taken.lock();
        let Some(metric) = taken.metrics.get(name) else {
            return Vec::new();
        };
        match metric.data.clone().unwrap() {
            Data::Histogram(histogram) => {
                let points = histogram.data_points.into_iter();
                points
                    .map(|p| (all(&p.attributes), p.count, p.sum.unwrap()))
                    .collect()
            }
            Data::Sum(sum) => numbers(sum.data_points),
            Data::Gauge(gauge) => numbers(gauge.data_points),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn metric_names(&self) -> Vec<String> {
        self.taken.lock().metrics.keys().cloned().collect()
    }
}

fn numbers(
    points: Vec<opentelemetry_proto::tonic::metrics::v1::NumberDataPoint>,
) -> Vec<(BTreeMap<String, String>, u64, f64)> {
    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
    let number = |value| match value {
        Some(Value::AsInt(number)) => number as f64,
        Some(Value::AsDouble(number)) => number,
        None => 0.0,
    };
    let point = |p: opentelemetry_proto::tonic::metrics::v1::NumberDataPoint| {
        (all(&p.attributes), 1, number(p.value))
    };
    points.into_iter().map(point).collect()
}

async fn serve(
    mut stream: TcpStream,
    taken: Arc<Mutex<Taken>>,
    mut answers: watch::Receiver<Answer>,
    tell: Arc<watch::Sender<usize>>,
) {
    while let Some((head, body)) = request(&mut stream).await {
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let answer = *answers.borrow_and_update();
        {
            let mut taken = taken.lock();
            taken.requests += 1;
            taken.heads.push(head);
            if answer == Answer::Takes {
                take(&mut taken, &path, body);
            }
        }
        tell.send_modify(|requests| *requests += 1);
        let status = match answer {
            Answer::Takes => 200,
            Answer::Status(status) => status,
            Answer::Hangs => std::future::pending().await,
        };
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn take(taken: &mut Taken, path: &str, body: Vec<u8>) {
    match path {
        "/v1/traces" => {
            let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
            let before = taken.spans.len();
            for of_resource in request.resource_spans {
                taken.resource = of_resource.resource.unwrap_or_default().attributes;
                for of_scope in of_resource.scope_spans {
                    assert_eq!(of_scope.scope.unwrap().name, "ghostlight");
                    taken.spans.extend(of_scope.spans);
                }
            }
            taken.largest = taken.largest.max(taken.spans.len() - before);
        }
        "/v1/metrics" => {
            let request = ExportMetricsServiceRequest::decode(&body[..]).unwrap();
            let resources = request.resource_metrics.into_iter();
            let scopes = resources.flat_map(|of_resource| of_resource.scope_metrics);
            for metric in scopes.flat_map(|of_scope| of_scope.metrics) {
                taken.metrics.insert(metric.name.clone(), metric);
            }
        }
        other => panic!("nothing is exported to {other}"),
    }
    taken.bodies.push(body);
}

async fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(end) = read.windows(4).position(|part| part == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(read[..end].to_vec())
        .unwrap()
        .to_lowercase();
    assert!(
        head.contains("content-type: application/x-protobuf"),
        "{head}"
    );
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.unwrap().trim().parse().unwrap();
    while read.len() < end + length {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
    Some((head, read[end..end + length].to_vec()))
}

fn shown(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::ArrayValue(values)) => {
            let values = values.values.iter().map(|value| shown(Some(value)));
            values.collect::<Vec<_>>().join(",")
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn all(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let pairs = attributes.iter();
    pairs
        .map(|pair| (pair.key.clone(), shown(pair.value.as_ref())))
        .collect()
}

/// An attribute as text; nothing where there is none.
pub(crate) fn text(attributes: &[KeyValue], name: &str) -> String {
    all(attributes).remove(name).unwrap_or_default()
}

/// The one span of this name.
pub(crate) fn named<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(found.len(), 1, "{name} among {names:?}");
    found[0]
}

/// Whether the span's status is that of an error.
pub(crate) fn is_error(span: &Span) -> bool {
    span.status
        .as_ref()
        .is_some_and(|status| status.code() == StatusCode::Error)
}

/// No span twice, and none whose parent is missing.
pub(crate) fn check_whole(spans: &[Span]) {
    let mut ids = std::collections::BTreeSet::new();
    for span in spans {
        assert!(ids.insert(&span.span_id), "{} is there twice", span.name);
        assert!(
            span.start_time_unix_nano <= span.end_time_unix_nano,
            "{}",
            span.name
        );
    }
    for span in spans {
        let has_parent = span.parent_span_id.is_empty() || ids.contains(&span.parent_span_id);
        assert!(has_parent, "{} is an orphan", span.name);
    }
}
