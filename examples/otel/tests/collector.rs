//! Runs the example against a local receiver of OTLP.

#![allow(clippy::unwrap_used)]

use axum::{Router, body::Bytes, routing::post};
use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::{Metric, metric::Data},
    trace::v1::Span,
};
use prost::Message;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};
use tokio::{net::TcpListener, process::Command};

#[derive(Default)]
struct Received {
    metrics: Vec<Metric>,
    spans: Vec<Span>,
}

fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?;
    match value.value? {
        Value::StringValue(text) => Some(text),
        other => panic!("{key} is {other:?}"),
    }
}

/// Receives what is sent to the endpoint, and returns its address.
async fn receiver(received: Arc<Mutex<Received>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let of_metrics = received.clone();
    let metrics = async move |body: Bytes| {
        let request = ExportMetricsServiceRequest::decode(body).unwrap();
        let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        of_metrics.lock().unwrap().metrics.extend(scopes.flat_map(|scope| scope.metrics));
    };
    let traces = async move |body: Bytes| {
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        received.lock().unwrap().spans.extend(scopes.flat_map(|scope| scope.spans));
    };
    let router = Router::new().route("/v1/metrics", post(metrics)).route("/v1/traces", post(traces));
    tokio::spawn(async move { axum::serve(listener, router).await });
    endpoint
}

#[tokio::test]
async fn collector_receives_the_metrics_and_the_spans_of_locks() {
    let received = Arc::new(Mutex::new(Received::default()));
    let endpoint = receiver(received.clone()).await;
    let output = Command::new(env!("CARGO_BIN_EXE_otel-example"))
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");

    let Received { metrics, spans } = &*received.lock().unwrap();
    let names: BTreeSet<_> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    for name in ["lock.acquire.duration", "lock.hold.duration", "lock.held", "lock.release"] {
        assert!(names.contains(name), "{name} is missing in {names:?}");
    }
    let releases = metrics.iter().find(|metric| metric.name == "lock.release").unwrap();
    let Some(Data::Sum(sum)) = &releases.data else { panic!("{releases:?}") };
    let point = &sum.data_points[0];
    assert_eq!(attribute(&point.attributes, "lock.outcome").as_deref(), Some("released"));
    assert_eq!(attribute(&point.attributes, "lock.class").as_deref(), Some("stock"));

    let acquires: Vec<_> = spans.iter().filter(|span| span.name == "lock.acquire").collect();
    assert_eq!(acquires.len(), 2, "{spans:?}");
    for acquire in acquires {
        let order = spans.iter().find(|span| span.span_id == acquire.parent_span_id);
        assert_eq!(order.map(|order| order.name.as_str()), Some("order"), "{spans:?}");
        assert_eq!(attribute(&acquire.attributes, "lock.name").as_deref(), Some("stock:42"));
        assert_eq!(attribute(&acquire.attributes, "lock.outcome").as_deref(), Some("acquired"));
    }
}

#[tokio::test]
async fn example_fails_without_a_collector() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_otel-example"))
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{free}"))
        .output()
        .await
        .unwrap();
    assert!(!output.status.success(), "nothing was received: {output:?}");
}
