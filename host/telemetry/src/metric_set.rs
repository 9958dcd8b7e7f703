//! Metrics: their instruments, and the values that are aggregated between exports.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    metrics::v1::{
        AggregationTemporality, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum, metric::Data,
        number_data_point::Value,
    },
};
use shelly_core::limits;

use crate::{attribute, conventions};

/// A metric that the host records.
pub(crate) struct Instrument {
    pub name: &'static str,
    pub description: &'static str,
    pub unit: &'static str,
    pub kind: InstrumentKind,
}

pub(crate) enum InstrumentKind {
    /// A sum of whole numbers.
    Count,
    /// A sum of fractions.
    Total,
    /// A histogram with these bounds.
    Histogram(&'static [f64]),
}

pub(crate) static TOKEN_USAGE: Instrument = Instrument {
    name: "gen_ai.client.token.usage",
    description: "Number of input and output tokens used",
    unit: "{token}",
    // Those that the conventions advise.
    kind: InstrumentKind::Histogram(&[
        1.0,
        4.0,
        16.0,
        64.0,
        256.0,
        1_024.0,
        4_096.0,
        16_384.0,
        65_536.0,
        262_144.0,
        1_048_576.0,
        4_194_304.0,
        16_777_216.0,
        67_108_864.0,
    ]),
};

pub(crate) static OPERATION_DURATION: Instrument = Instrument {
    name: "gen_ai.client.operation.duration",
    description: "GenAI operation duration",
    unit: "s",
    // Those that the conventions advise.
    kind: InstrumentKind::Histogram(&[
        0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
    ]),
};

pub(crate) static COST: Instrument = Instrument {
    name: "shelly.cost",
    description: "Cost of model requests whose price is known, in US dollars",
    unit: "USD",
    kind: InstrumentKind::Total,
};

pub(crate) static PLUGIN_CALLS: Instrument = Instrument {
    name: "shelly.plugin.calls",
    description: "Calls of exported functions of plugins",
    unit: "{call}",
    kind: InstrumentKind::Count,
};

pub(crate) static PLUGIN_CPU: Instrument = Instrument {
    name: "shelly.plugin.cpu",
    description: "Processor time of plugin calls",
    unit: "s",
    kind: InstrumentKind::Total,
};

pub(crate) static DENIALS: Instrument = Instrument {
    name: "shelly.denials",
    description: "Capabilities, requests and calls that were denied",
    unit: "{denial}",
    kind: InstrumentKind::Count,
};

pub(crate) static DROPPED: Instrument = Instrument {
    name: "shelly.telemetry.dropped",
    description: "Spans, log records and events that were not exported",
    unit: "{item}",
    kind: InstrumentKind::Count,
};

/// The labels of a series: keys and values, in the order of the instrument.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// One value of a metric.
pub(crate) struct Measurement {
    pub instrument: &'static Instrument,
    pub labels: Labels,
    pub value: f64,
}

/// The values of all metrics since the start.
pub(crate) struct MetricSet {
    started: u64,
    instruments: BTreeMap<&'static str, InstrumentSeries>,
}

struct InstrumentSeries {
    instrument: &'static Instrument,
    series: BTreeMap<Labels, Aggregate>,
}

/// The aggregated values of one series.
#[derive(Default)]
struct Aggregate {
    count: u64,
    sum: f64,
    least: f64,
    most: f64,
    /// One more than there are bounds; empty for a sum.
    buckets: Vec<u64>,
}

impl MetricSet {
    /// Creates a set without values; `started` is in nanoseconds since 1970.
    pub fn new(started: u64) -> Self {
        Self { started, instruments: BTreeMap::new() }
    }

    /// Adds a value. Labels beyond the bound share one series.
    pub fn record(&mut self, measurement: Measurement) {
        let Measurement { instrument, labels, value } = measurement;
        let InstrumentSeries { series, .. } = self
            .instruments
            .entry(instrument.name)
            .or_insert_with(|| InstrumentSeries { instrument, series: BTreeMap::new() });
        let has_room = series.len() < limits::TELEMETRY_SERIES - 1 || series.contains_key(&labels);
        let labels = if has_room { labels } else { vec![(conventions::METRIC_OVERFLOW, String::new())] };
        series.entry(labels).or_default().add(&instrument.kind, value);
    }

    /// Sets the value of a sum, for what is counted elsewhere.
    pub fn set(&mut self, instrument: &'static Instrument, labels: Labels, value: f64) {
        let entry = self.instruments.entry(instrument.name);
        let InstrumentSeries { series, .. } =
            entry.or_insert_with(|| InstrumentSeries { instrument, series: BTreeMap::new() });
        series.insert(labels, Aggregate { count: 1, sum: value, ..Aggregate::default() });
    }

    pub fn is_empty(&self) -> bool {
        self.instruments.is_empty()
    }

    /// Returns all values up to now, in nanoseconds since 1970.
    pub fn to_metrics(&self, now: u64) -> Vec<Metric> {
        let temporality = AggregationTemporality::Cumulative.into();
        let metric = |InstrumentSeries { instrument, series }: &InstrumentSeries| {
            let data = match instrument.kind {
                InstrumentKind::Histogram(bounds) => Data::Histogram(Histogram {
                    data_points: series
                        .iter()
                        .map(|(labels, aggregate)| HistogramDataPoint {
                            attributes: attributes(labels),
                            start_time_unix_nano: self.started,
                            time_unix_nano: now,
                            count: aggregate.count,
                            sum: Some(aggregate.sum),
                            bucket_counts: aggregate.buckets.clone(),
                            explicit_bounds: bounds.to_vec(),
                            min: Some(aggregate.least),
                            max: Some(aggregate.most),
                            ..HistogramDataPoint::default()
                        })
                        .collect(),
                    aggregation_temporality: temporality,
                }),
                InstrumentKind::Count | InstrumentKind::Total => Data::Sum(Sum {
                    data_points: series
                        .iter()
                        .map(|(labels, aggregate)| NumberDataPoint {
                            attributes: attributes(labels),
                            start_time_unix_nano: self.started,
                            time_unix_nano: now,
                            value: Some(match instrument.kind {
                                // A count is a whole number far below 2^53.
                                InstrumentKind::Count => Value::AsInt(aggregate.sum as i64),
                                _ => Value::AsDouble(aggregate.sum),
                            }),
                            ..NumberDataPoint::default()
                        })
                        .collect(),
                    aggregation_temporality: temporality,
                    is_monotonic: true,
                }),
            };
            Metric {
                name: instrument.name.to_owned(),
                description: instrument.description.to_owned(),
                unit: instrument.unit.to_owned(),
                data: Some(data),
                ..Metric::default()
            }
        };
        self.instruments.values().map(metric).collect()
    }
}

impl Aggregate {
    fn add(&mut self, kind: &InstrumentKind, value: f64) {
        if let InstrumentKind::Histogram(bounds) = kind {
            self.buckets.resize(bounds.len() + 1, 0);
            self.buckets[bounds.partition_point(|bound| *bound < value)] += 1;
            self.least = if self.count == 0 { value } else { self.least.min(value) };
            self.most = if self.count == 0 { value } else { self.most.max(value) };
        }
        self.count += 1;
        self.sum += value;
    }
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    let attribute = |(key, value): &(&'static str, String)| match *key {
        conventions::METRIC_OVERFLOW => attribute::flag(key, true),
        key => attribute::text(key, value.as_str()),
    };
    labels.iter().map(attribute).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(instrument: &'static Instrument, label: &str, value: f64) -> Measurement {
        Measurement { instrument, labels: vec![(conventions::TOOL_NAME, label.to_owned())], value }
    }

    #[test]
    fn values_are_aggregated_by_their_labels() {
        let mut set = MetricSet::new(5);
        assert!(set.is_empty());
        for (label, value) in [("a", 3.0), ("a", 4.0), ("b", 100_000_000.0)] {
            set.record(measured(&TOKEN_USAGE, label, value));
            set.record(measured(&PLUGIN_CALLS, label, 1.0));
        }
        set.set(&DROPPED, Vec::new(), 7.0);
        let metrics = set.to_metrics(9);
        let [usage, calls, dropped] = &metrics[..] else { panic!("{metrics:?}") };
        let Some(Data::Histogram(usage)) = &usage.data else { panic!("{usage:?}") };
        let [a, b] = &usage.data_points[..] else { panic!("{usage:?}") };
        assert_eq!((a.count, a.sum, a.min, a.max), (2, Some(7.0), Some(3.0), Some(4.0)));
        assert_eq!(a.bucket_counts[..3], [0, 2, 0], "a bound belongs to the bucket below it");
        assert_eq!((b.bucket_counts.len(), b.bucket_counts.last()), (b.explicit_bounds.len() + 1, Some(&1)));
        assert_eq!((a.start_time_unix_nano, a.time_unix_nano), (5, 9));
        let Some(Data::Sum(calls)) = &calls.data else { panic!("{calls:?}") };
        assert_eq!(calls.data_points[0].value, Some(Value::AsInt(2)));
        assert!(calls.is_monotonic && dropped.name == "shelly.telemetry.dropped");
    }

    #[test]
    fn series_beyond_the_bound_share_one() {
        let mut set = MetricSet::new(0);
        for n in 0..limits::TELEMETRY_SERIES + 10 {
            set.record(measured(&PLUGIN_CALLS, &n.to_string(), 1.0));
        }
        set.record(measured(&PLUGIN_CALLS, "0", 1.0));
        let metrics = set.to_metrics(0);
        let Some(Data::Sum(calls)) = &metrics[0].data else { panic!() };
        assert_eq!(calls.data_points.len(), limits::TELEMETRY_SERIES);
        let shared = calls.data_points.iter().find(|point| point.attributes[0].key == "otel.metric.overflow").unwrap();
        assert_eq!(shared.value, Some(Value::AsInt(11)));
        let first = calls.data_points.iter().find(|point| point.value == Some(Value::AsInt(2)));
        assert!(first.is_some(), "a known series goes on");
    }
}
