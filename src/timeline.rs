//! What happened when: spans on lanes and bytes over time, of a real run or a simulated one.
//!
//! [`Timeline::to_chrome_json`] is for <https://ui.perfetto.dev>, [`Timeline::to_svg`] for a glance. Times are
//! nanoseconds since the start of the run.

mod svg;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a span is of; gives its colour.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Work of the processor.
    Host,
    /// A worker that has the card compute for it.
    Drive,
    /// A copy between host and device.
    Copy,
    /// Kernels of the transforms and the quotient.
    Transform,
    /// Kernels of multi-scalar multiplications.
    Msm,
    /// Waiting: for a lock, for memory, for admission.
    Wait,
    /// A device-wide call that waits for everything on the card.
    Stall,
}

impl Class {
    /// All classes, in the order of the legend.
    pub const ALL: [Self; 7] =
        [Self::Host, Self::Drive, Self::Copy, Self::Transform, Self::Msm, Self::Wait, Self::Stall];

    /// The class in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Host => "host work",
            Self::Drive => "has the card",
            Self::Copy => "copy",
            Self::Transform => "transforms, quotient",
            Self::Msm => "MSM",
            Self::Wait => "waits",
            Self::Stall => "device-wide call",
        }
    }
}

/// Something that took time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// Index of the lane, as [`Timeline::lane`] gave it.
    pub lane: usize,
    /// A short name, drawn where there is room.
    pub label: String,
    /// The rest that is worth knowing, shown on demand.
    pub detail: String,
    /// What it is of.
    pub class: Class,
    /// When it began.
    pub start_ns: u64,
    /// When it ended, not before it began.
    pub end_ns: u64,
}

/// Bytes over time: each value holds from its time to the next point's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Series {
    /// What is counted, such as `leased`.
    pub name: String,
    /// Times, rising, and bytes.
    pub points: Vec<(u64, u64)>,
}

/// A moment worth a line across all lanes, such as an allocation that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// When.
    pub at_ns: u64,
    /// What.
    pub label: String,
}

/// Spans on lanes, bytes over time, and marks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Timeline {
    /// Stands on top of the picture.
    pub title: String,
    /// A second line: the result in figures.
    pub subtitle: String,
    /// The bytes that there are, if known.
    pub limit_bytes: Option<u64>,
    lanes: Vec<String>,
    spans: Vec<Span>,
    series: Vec<Series>,
    marks: Vec<Mark>,
}

impl Timeline {
    /// Nothing happened yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// The lane of this name, a new one below the others if there is none.
    pub fn lane(&mut self, name: &str) -> usize {
        let found = self.lanes.iter().position(|lane| lane == name);
        found.unwrap_or_else(|| {
            self.lanes.push(name.to_owned());
            self.lanes.len() - 1
        })
    }

    /// Adds a span; its lane must be there.
    pub fn span(&mut self, span: Span) {
        debug_assert!(span.lane < self.lanes.len() && span.start_ns <= span.end_ns, "{span:?}");
        self.spans.push(span);
    }

    /// Makes a span longer, by its index.
    pub(crate) fn extend(&mut self, span: usize, end_ns: u64) {
        self.spans[span].end_ns = end_ns;
    }

    /// Sets a byte counter from a time on, which is not before its last one. The counter is made by its first point.
    pub fn bytes(&mut self, name: &str, at_ns: u64, bytes: u64) {
        let index =
            self.series.iter().position(|series| series.name == name).unwrap_or_else(|| {
                self.series.push(Series { name: name.to_owned(), points: Vec::new() });
                self.series.len() - 1
            });
        let points = &mut self.series[index].points;
        match points.last_mut() {
            Some((time, value)) if *time == at_ns => *value = bytes,
            Some((_, value)) if *value == bytes => {}
            last => {
                debug_assert!(
                    last.is_none_or(|(time, _)| *time < at_ns),
                    "{name} goes back in time"
                );
                points.push((at_ns, bytes));
            }
        }
    }

    /// Draws a line across all lanes.
    pub fn mark(&mut self, at_ns: u64, label: impl Into<String>) {
        self.marks.push(Mark { at_ns, label: label.into() });
    }

    /// The names of the lanes, from the top.
    pub fn lanes(&self) -> &[String] {
        &self.lanes
    }

    /// All spans, in the order in which they were added.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// All byte counters.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// All marks.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// When the last thing ended.
    pub fn end_ns(&self) -> u64 {
        let spans = self.spans.iter().map(|span| span.end_ns);
        let points = self.series.iter().flat_map(|series| &series.points).map(|point| point.0);
        spans.chain(points).chain(self.marks.iter().map(|mark| mark.at_ns)).max().unwrap_or(0)
    }

    /// The time within `start_ns` to `end_ns` in which at least one of the spans that `of` takes was going on.
    pub fn busy_ns(&self, start_ns: u64, end_ns: u64, of: impl Fn(&Span) -> bool) -> u64 {
        let mut spans: Vec<_> = self
            .spans
            .iter()
            .filter(|span| of(span))
            .map(|span| (span.start_ns.max(start_ns), span.end_ns.min(end_ns)))
            .collect();
        spans.sort_unstable();
        let (mut busy, mut until) = (0, start_ns);
        for (start, end) in spans {
            busy += end.saturating_sub(start.max(until));
            until = until.max(end);
        }
        busy
    }

    /// The part from `start_ns` to `end_ns`; times stay as they are.
    pub fn window(&self, start_ns: u64, end_ns: u64) -> Self {
        let clip = |span: &Span| {
            let (start, end) = (span.start_ns.max(start_ns), span.end_ns.min(end_ns));
            let inside = start < end || (start == end && span.start_ns == span.end_ns);
            inside.then(|| Span { start_ns: start, end_ns: end, ..span.clone() })
        };
        let crop = |series: &Series| {
            let before = series.points.iter().rev().find(|point| point.0 <= start_ns);
            let first = before.map(|point| (start_ns, point.1));
            let rest = series.points.iter().filter(|point| point.0 > start_ns && point.0 <= end_ns);
            Series {
                name: series.name.clone(),
                points: first.into_iter().chain(rest.copied()).collect(),
            }
        };
        Self {
            spans: self.spans.iter().filter_map(clip).collect(),
            series: self.series.iter().map(crop).collect(),
            marks: self
                .marks
                .iter()
                .filter(|mark| (start_ns..=end_ns).contains(&mark.at_ns))
                .cloned()
                .collect(),
            ..self.clone()
        }
    }

    /// Trace events of the Chrome and Perfetto viewers: a complete event (`X`) a span, a counter event (`C`) a
    /// point, a global instant (`i`) a mark.
    pub fn to_chrome_json(&self) -> String {
        let us = |ns: u64| ns as f64 / 1000.0;
        let mut events: Vec<Value> = vec![
            json!({ "ph": "M", "pid": 1, "name": "process_name", "args": { "name": self.title } }),
        ];
        for (lane, name) in self.lanes.iter().enumerate() {
            for (event, value) in [
                ("thread_name", json!({ "name": name })),
                ("thread_sort_index", json!({ "sort_index": lane })),
            ] {
                events.push(
                    json!({ "ph": "M", "pid": 1, "tid": lane, "name": event, "args": value }),
                );
            }
        }
        for span in &self.spans {
            events.push(json!({
                "ph": "X", "pid": 1, "tid": span.lane, "name": span.label, "cat": span.class.text(),
                "ts": us(span.start_ns), "dur": us(span.end_ns - span.start_ns),
                "args": { "detail": span.detail },
            }));
        }
        for series in &self.series {
            for (time, bytes) in &series.points {
                events.push(json!({
                    "ph": "C", "pid": 1, "name": format!("bytes {}", series.name), "ts": us(*time),
                    "args": { series.name.as_str(): bytes },
                }));
            }
        }
        for mark in &self.marks {
            events.push(json!({
                "ph": "i", "s": "g", "pid": 1, "tid": 0, "name": mark.label, "ts": us(mark.at_ns),
            }));
        }
        json!({ "displayTimeUnit": "ms", "traceEvents": events }).to_string()
    }

    /// A waterfall for a person, 1200 pixels wide: lanes, below them the bytes against the limit, the time axis
    /// and a legend.
    pub fn to_svg(&self) -> String {
        svg::draw(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_counts_overlaps_once() {
        let mut timeline = Timeline::new("");
        for (start_ns, end_ns, class) in [
            (10, 20, Class::Msm),
            (15, 30, Class::Transform),
            (40, 50, Class::Msm),
            (0, 100, Class::Copy),
        ] {
            let (label, detail) = (String::new(), String::new());
            let lane = timeline.lane("a");
            timeline.span(Span { lane, label, detail, class, start_ns, end_ns });
        }
        let kernels = |span: &Span| span.class != Class::Copy;
        assert_eq!(timeline.busy_ns(0, 100, kernels), 30);
        assert_eq!(timeline.busy_ns(12, 45, kernels), 18 + 5);
        assert_eq!(timeline.busy_ns(30, 40, kernels), 0);
        assert_eq!(timeline.busy_ns(0, 100, |_| true), 100);
    }
}
