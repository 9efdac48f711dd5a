//! The values of variables, each checked as it is read.

use std::{collections::HashMap, time::Duration};

use ghostlight_safety::percent_decoded;
use http::{HeaderName, HeaderValue, Uri};
use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_METRICS_PROTOCOL,
    OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE, OTEL_EXPORTER_OTLP_PROTOCOL,
    OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,
};
use opentelemetry_sdk::{metrics::Temporality, trace::Sampler};

use crate::error::OpenTelemetryError;

/// The time limit of a request where no variable sets one.
const TIMEOUT: Duration = Duration::from_secs(10);
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const RATIO: &str = "OTEL_TRACES_SAMPLER_ARG";
const INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const SPOKEN: &str = "http/protobuf";

/// The place where variables are looked up.
pub(crate) struct Variables<'a>(pub(crate) &'a dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    /// A variable that is set, and not to nothing.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let value = (self.0)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// That of a signal, or else that of all, with the name of the one that is set.
    fn nearest<'n>(&self, names: [&'n str; 2]) -> Option<(&'n str, String)> {
        let mut found = names
            .into_iter()
            .filter_map(|name| Some((name, self.get(name)?)));
        found.next()
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// The address to which a signal is exported; `None` where no variable names one.
    pub(crate) fn endpoint(
        &self,
        of_signal: &'static str,
        path: &str,
    ) -> Result<Option<String>, OpenTelemetryError> {
        let found = self.nearest([of_signal, OTEL_EXPORTER_OTLP_ENDPOINT]);
        let Some((name, address)) = found else {
            return Ok(None);
        };
        let is_of_signal = name == of_signal;
        check_address(name, &address)?;
        Ok(Some(match is_of_signal {
            true => address,
            false => below(&address, path),
        }))
    }

    /// The headers of a signal's requests.
    pub(crate) fn headers(
        &self,
        of_signal: &'static str,
    ) -> Result<HashMap<String, String>, OpenTelemetryError> {
        let found = self.nearest([of_signal, OTEL_EXPORTER_OTLP_HEADERS]);
        let Some((name, list)) = found else {
            return Ok(HashMap::new());
        };
        let fits = |(name, value): (String, String)| {
            let fits = HeaderName::try_from(&name).is_ok() && HeaderValue::try_from(&value).is_ok();
            fits.then_some((name, value))
        };
        let headers: Option<_> = pairs(&list).map(|pair| fits(pair?)).collect();
        headers.ok_or_else(|| {
            secret(
                name,
                "it is not a list of headers such as api-key=…,tenant=…",
            )
        })
    }

    pub(crate) fn timeout(&self, of_signal: &'static str) -> Result<Duration, OpenTelemetryError> {
        match self.nearest([of_signal, OTEL_EXPORTER_OTLP_TIMEOUT]) {
            None => Ok(TIMEOUT),
            Some((name, given)) => milliseconds(name, given),
        }
    }

    /// The time between two exports of metrics, where a variable says so.
    pub(crate) fn interval(&self) -> Result<Option<Duration>, OpenTelemetryError> {
        let given = self.get(INTERVAL);
        given.map(|given| milliseconds(INTERVAL, given)).transpose()
    }

    pub(crate) fn temporality(&self) -> Result<Temporality, OpenTelemetryError> {
        let name = OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE;
        match self.get(name) {
            None => Ok(Temporality::default()),
            Some(given) => given
                .parse()
                .map_err(|()| wrong(name, given, "there are cumulative, delta and lowmemory")),
        }
    }

    /// Each tree of runs begins here, so a sampler that asks a parent asks nobody.
    pub(crate) fn sampler(&self) -> Result<Sampler, OpenTelemetryError> {
        let given = self.get(SAMPLER).unwrap_or_else(|| "always_on".to_owned());
        match given.strip_prefix("parentbased_").unwrap_or(&given) {
            "always_on" => Ok(Sampler::AlwaysOn),
            "always_off" => Ok(Sampler::AlwaysOff),
            "traceidratio" => Ok(Sampler::TraceIdRatioBased(self.ratio()?)),
            _ => {
                let reason = "there are always_on, always_off and traceidratio, also with parentbased_ before them";
                Err(wrong(SAMPLER, given, reason))
            }
        }
    }

    fn ratio(&self) -> Result<f64, OpenTelemetryError> {
        let Some(given) = self.get(RATIO) else {
            return Ok(1.0);
        };
        let ratio = given.parse().ok();
        let ratio = ratio.filter(|ratio| (0.0..=1.0).contains(ratio));
        ratio.ok_or_else(|| wrong(RATIO, given, "give a number from 0 to 1"))
    }

    /// The attributes of the process besides its name.
    pub(crate) fn resource(&self) -> Result<Vec<KeyValue>, OpenTelemetryError> {
        let list = self.get(RESOURCE).unwrap_or_default();
        let attributes =
            pairs(&list).map(|pair| pair.map(|(name, value)| KeyValue::new(name, value)));
        let attributes: Option<_> = attributes.collect();
        attributes.ok_or_else(|| wrong(RESOURCE, list, "give a list such as team=desk,zone=b"))
    }

    /// Checks that no other protocol is asked for than the one that is spoken.
    pub(crate) fn check_protocol(&self) -> Result<(), OpenTelemetryError> {
        for name in [
            OTEL_EXPORTER_OTLP_PROTOCOL,
            OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,
            OTEL_EXPORTER_OTLP_METRICS_PROTOCOL,
        ] {
            if let Some(given) = self.get(name).filter(|given| given != SPOKEN) {
                let reason = "it is not spoken here: set it to http/protobuf, and the endpoint to the collector's port for \
                              HTTP, which is 4318 where nobody changed it";
                return Err(wrong(name, given, reason));
            }
        }
        Ok(())
    }
}

/// Checks an address without showing it: it may hold a key.
pub(crate) fn check_address(name: &str, address: &str) -> Result<(), OpenTelemetryError> {
    let uri = address.parse::<Uri>().ok();
    let is_http = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https"));
    match uri.filter(|uri| is_http(uri) && uri.host().is_some()) {
        Some(_) => Ok(()),
        None => Err(secret(
            name,
            "it is not an address such as http://localhost:4318",
        )),
    }
}

/// The address of a signal below that of all.
pub(crate) fn below(address: &str, path: &str) -> String {
    format!("{}{path}", address.trim_end_matches('/'))
}

/// `name=value,…`, where values may be percent-encoded; `None` for a part that is none.
fn pairs(list: &str) -> impl Iterator<Item = Option<(String, String)>> {
    let parts = list.split(',').filter(|part| !part.trim().is_empty());
    parts.map(|part| {
        let (name, value) = part.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        let value = String::from_utf8_lossy(&percent_decoded(value)).into_owned();
        (!name.is_empty()).then(|| (name.to_owned(), value))
    })
}

fn milliseconds(name: &str, given: String) -> Result<Duration, OpenTelemetryError> {
    match given.parse() {
        Ok(ms) if ms > 0 => Ok(Duration::from_millis(ms)),
        _ => Err(wrong(name, given, "give a number of milliseconds above 0")),
    }
}

pub(crate) fn wrong(name: &str, value: String, reason: &str) -> OpenTelemetryError {
    OpenTelemetryError::Variable {
        variable: name.to_owned(),
        value,
        reason: reason.to_owned(),
    }
}

/// An error that does not show the value.
fn secret(name: &str, reason: &str) -> OpenTelemetryError {
    wrong(name, "…".to_owned(), reason)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of<T>(set: &[(&str, &str)], read: impl Fn(&Variables<'_>) -> T) -> T {
        let look_up = |name: &str| {
            let mut set = set.iter();
            let found = set.find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        read(&Variables(&look_up))
    }

    const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    const KEYS: &str = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";

    #[test]
    fn the_address_of_a_signal_is_used_as_it_is_and_that_of_all_is_the_base() {
        let base = (OTEL_EXPORTER_OTLP_ENDPOINT, " https://c.example:4318/ ");
        let endpoint = |set: &[_]| of(set, |of| of.endpoint(TRACES, "/v1/traces")).unwrap();
        let expected = "https://c.example:4318/v1/traces";
        assert_eq!(endpoint(&[base]).unwrap(), expected);
        let own = (TRACES, "http://t.example/in");
        assert_eq!(endpoint(&[base, own]).unwrap(), "http://t.example/in");
        assert_eq!(endpoint(&[(TRACES, " ")]), None);
        for wrong in [
            "c.example:4318",
            "key@@:",
            "ftp://a",
            "/v1",
            "http:///hidden",
        ] {
            let error = of(&[(TRACES, wrong)], |of| of.endpoint(TRACES, "")).unwrap_err();
            let told = error.to_string();
            assert!(told.contains(TRACES) && !told.contains(wrong), "{told}");
        }
    }

    #[test]
    fn headers_are_decoded_and_an_error_does_not_show_them() {
        let headers = |list| of(&[(KEYS, list)], |of| of.headers(KEYS));
        let read = headers(" api-key = a%20b%3D , x-tenant=100%,").unwrap();
        assert_eq!((read.len(), &*read["api-key"]), (2, "a b="));
        assert_eq!(read["x-tenant"], "100%");
        for wrong in ["hunter22", "=hunter22", "a b=hunter22", "a=hunter22%0A"] {
            let told = headers(wrong).unwrap_err().to_string();
            assert!(told.contains(KEYS) && !told.contains("hunter22"), "{told}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_used_is_refused() {
        let ratio = |given| {
            of(&[(SAMPLER, "traceidratio"), (RATIO, given)], |of| {
                of.sampler()
            })
        };
        assert!(matches!(ratio("0.25"), Ok(Sampler::TraceIdRatioBased(ratio)) if ratio == 0.25));
        for given in ["-1", "2", "NaN", "many"] {
            assert!(ratio(given).is_err(), "{given}");
        }
        let sampler = |given| of(&[(SAMPLER, given)], |of| of.sampler());
        assert!(matches!(
            sampler("parentbased_always_off"),
            Ok(Sampler::AlwaysOff)
        ));
        assert!(sampler("xray").is_err());
        assert!(of(&[(INTERVAL, "0")], |of| of.interval()).is_err());
        assert!(of(&[(RESOURCE, "alone")], |of| of.resource()).is_err());
        let name = OTEL_EXPORTER_OTLP_METRICS_PROTOCOL;
        let told = of(&[(name, "grpc")], |of| of.check_protocol()).unwrap_err();
        assert!(told.to_string().starts_with(name), "{told}");
    }
}
