//! The waterfall, as plain SVG text.

use std::fmt::{self, Write};

use super::{Class, Timeline};
use crate::bytes;

const WIDTH: f64 = 1200.0;
/// Left of this stand the names of the lanes.
const LEFT: f64 = 128.0;
/// Right of this nothing is drawn but labels that overhang.
const RIGHT: f64 = WIDTH - 20.0;
/// Where the first line of the subtitle stands, and how far apart lines are.
const SUBTITLE: f64 = 45.0;
const LINE: f64 = 16.0;
/// Letters of the subtitle that fit in a line.
const WRAP: usize = 185;
const LANE: f64 = 24.0;
const BAR: f64 = 18.0;
const CHART: f64 = 150.0;
/// A letter of the labels inside bars, at 10 px.
const LETTER: f64 = 5.8;
const SERIES_COLOURS: [(&str, &str); 3] =
    [("#7c9fc9", "#41699b"), ("none", "#1f7a4d"), ("none", "#8a5a00")];

fn fill(class: Class) -> &'static str {
    match class {
        Class::Host => "#cfd4da",
        Class::Drive => "#dbe7f6",
        Class::Copy => "#5fb3a8",
        Class::Transform => "#4a78b5",
        Class::Msm => "#e0963c",
        Class::Wait => "url(#wait)",
        Class::Stall => "url(#stall)",
    }
}

/// The colour of a label on that fill.
fn ink(class: Class) -> &'static str {
    match class {
        Class::Transform => "#fff",
        _ => "#222",
    }
}

/// Text for an element's content or an attribute; characters that XML 1.0 cannot hold become U+FFFD.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\t' | '\n' | '\r' => f.write_char(' ')?,
                '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The lines of a text, none much longer than [`WRAP`].
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut now = String::new();
        for word in line.split_whitespace() {
            if !now.is_empty() && now.chars().count() + 1 + word.chars().count() > WRAP {
                lines.push(std::mem::take(&mut now));
            }
            if !now.is_empty() {
                now.push(' ');
            }
            now.push_str(word);
        }
        lines.push(now);
    }
    lines
}

/// A step of the axis: 1, 2 or 5 times a power of ten nanoseconds, so that about ten fit.
fn tick(range_ns: u64) -> u64 {
    let mut step = 1u64;
    loop {
        for factor in [1, 2, 5] {
            if range_ns / (step * factor) <= 12 {
                return step * factor;
            }
        }
        step *= 10;
    }
}

fn time_text(ns: u64, step: u64) -> String {
    match step {
        1_000_000_000.. => format!("{} s", ns / 1_000_000_000),
        100_000_000.. => format!("{:.1} s", ns as f64 / 1e9),
        1_000_000.. => format!("{} ms", ns / 1_000_000),
        1_000.. => format!("{} µs", ns / 1_000),
        _ => format!("{ns} ns"),
    }
}

pub(super) fn draw(timeline: &Timeline) -> String {
    let mut svg = String::new();
    // Writing to a String cannot fail.
    let _ = write(timeline, &mut svg);
    svg
}

/// From time to pixels.
struct Scale {
    /// Where the lanes begin.
    top: f64,
    start_ns: u64,
    range_ns: u64,
}

impl Scale {
    fn x(&self, ns: u64) -> f64 {
        let share = (ns.saturating_sub(self.start_ns)) as f64 / self.range_ns as f64;
        LEFT + share.min(1.0) * (RIGHT - LEFT)
    }
}

fn write(timeline: &Timeline, svg: &mut String) -> fmt::Result {
    let first = timeline.spans.iter().map(|span| span.start_ns);
    let points =
        timeline.series.iter().flat_map(|series| series.points.first()).map(|point| point.0);
    let start_ns = first.chain(points).min().unwrap_or(0);
    let subtitle = wrapped(&timeline.subtitle);
    let top = SUBTITLE + LINE * subtitle.len().max(1) as f64 + 8.0;
    let scale = Scale { top, start_ns, range_ns: (timeline.end_ns() - start_ns).max(1) };

    let lanes_end = top + LANE * timeline.lanes.len() as f64;
    let chart_top = lanes_end + 30.0;
    let chart_end = chart_top + if timeline.series.is_empty() { -30.0 } else { CHART };
    let legend = chart_end + 44.0;
    let height = legend + 22.0;

    writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#222">"##
    )?;
    writeln!(
        svg,
        r##"<defs><pattern id="wait" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#faf8f2"/><rect width="1.4" height="6" fill="#d9d2bf"/></pattern><pattern id="stall" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#fbe3e0"/><rect width="2.4" height="6" fill="#d2685c"/></pattern></defs>"##
    )?;
    writeln!(svg, r##"<rect width="{WIDTH}" height="{height}" fill="#fff"/>"##)?;
    writeln!(
        svg,
        r#"<text x="14" y="25" font-size="17" font-weight="bold">{}</text>"#,
        Escaped(&timeline.title)
    )?;
    for (i, line) in subtitle.iter().enumerate() {
        let y = SUBTITLE + LINE * i as f64;
        writeln!(svg, r##"<text x="14" y="{y}" fill="#555">{}</text>"##, Escaped(line))?;
    }

    axis(svg, &scale, chart_end)?;
    lanes(timeline, svg, &scale)?;
    if !timeline.series.is_empty() {
        chart(timeline, svg, &scale, chart_top, chart_end)?;
    }
    marks(timeline, svg, &scale, chart_end)?;
    legends(timeline, svg, legend)?;
    writeln!(svg, "</svg>")
}

fn axis(svg: &mut String, scale: &Scale, chart_end: f64) -> fmt::Result {
    let step = tick(scale.range_ns);
    let mut time = scale.start_ns.next_multiple_of(step);
    while time <= scale.start_ns + scale.range_ns {
        let x = scale.x(time);
        writeln!(
            svg,
            r##"<path d="M{x:.1} {:.1}V{:.1}" stroke="#e6e6e6"/><text x="{x:.1}" y="{:.1}" text-anchor="middle" font-size="11" fill="#555">{}</text>"##,
            scale.top,
            chart_end + 4.0,
            chart_end + 18.0,
            time_text(time, step),
        )?;
        time += step;
    }
    Ok(())
}

fn lanes(timeline: &Timeline, svg: &mut String, scale: &Scale) -> fmt::Result {
    for (lane, name) in timeline.lanes.iter().enumerate() {
        let y = scale.top + LANE * lane as f64;
        writeln!(
            svg,
            r##"<text x="{:.1}" y="{:.1}" text-anchor="end">{}</text><path d="M{LEFT} {:.1}H{RIGHT}" stroke="#efefef"/>"##,
            LEFT - 8.0,
            y + 14.0,
            Escaped(name),
            y + LANE - 1.5,
        )?;
    }
    for span in &timeline.spans {
        let (x, end) = (scale.x(span.start_ns), scale.x(span.end_ns));
        let y = scale.top + LANE * span.lane as f64 + 1.0;
        // A hair between neighbours, but never nothing.
        let width = (end - x - 0.4).max(0.4);
        writeln!(
            svg,
            r#"<g><title>{}: {} ({}), {} ms from {} ms</title><rect x="{x:.2}" y="{y:.1}" width="{width:.2}" height="{BAR}" rx="1" fill="{}"/>"#,
            Escaped(&span.label),
            Escaped(&span.detail),
            span.class.text(),
            (span.end_ns - span.start_ns) as f64 / 1e6,
            span.start_ns as f64 / 1e6,
            fill(span.class),
        )?;
        if span.label.chars().count() as f64 * LETTER + 3.0 < width {
            write!(
                svg,
                r#"<text x="{:.1}" y="{:.1}" text-anchor="middle" font-size="10" fill="{}">{}</text>"#,
                x + width / 2.0,
                y + 12.5,
                ink(span.class),
                Escaped(&span.label),
            )?;
        }
        writeln!(svg, "</g>")?;
    }
    Ok(())
}

fn chart(timeline: &Timeline, svg: &mut String, scale: &Scale, top: f64, end: f64) -> fmt::Result {
    let most = timeline.series.iter().flat_map(|series| &series.points).map(|point| point.1).max();
    let range = most.max(timeline.limit_bytes).unwrap_or(0).max(1) as f64 * 1.06;
    let y = |value: u64| end - value as f64 / range * (end - top);
    let last = scale.start_ns + scale.range_ns;
    writeln!(svg, r##"<path d="M{LEFT} {end:.1}H{RIGHT}" stroke="#888"/>"##)?;
    // Three to six steps, each a power of two; the limit has its own label.
    let step = 1 << (range as u64 / 3).max(1).ilog2();
    for value in (0..=range as u64).step_by(step) {
        let y = y(value);
        writeln!(svg, r##"<path d="M{LEFT} {y:.1}H{RIGHT}" stroke="#e6e6e6"/>"##)?;
        let far = timeline.limit_bytes.is_none_or(|limit| limit.abs_diff(value) > step as u64 / 3);
        if far && value > 0 {
            let x = LEFT - 8.0;
            writeln!(
                svg,
                r##"<text x="{x:.1}" y="{:.1}" text-anchor="end" font-size="11" fill="#555">{}</text>"##,
                y + 4.0,
                bytes::text(value)
            )?;
        }
    }
    for (series, (area, line)) in timeline.series.iter().zip(SERIES_COLOURS.iter().cycle()) {
        if let [(time, value)] = series.points[..] {
            let (x, y) = (scale.x(time), y(value));
            let text = format!("{} {}", series.name, bytes::text(value));
            writeln!(
                svg,
                r##"<circle cx="{x:.1}" cy="{y:.1}" r="4" fill="#b3261e"/><text x="{:.1}" y="{:.1}" text-anchor="end" font-size="11" fill="#b3261e">{}</text>"##,
                x - 8.0,
                y - 7.0,
                Escaped(&text)
            )?;
            continue;
        }
        let mut path = String::new();
        for (i, (time, value)) in series.points.iter().enumerate() {
            let (x, y) = (scale.x(*time), y(*value));
            if i == 0 { write!(path, "M{x:.2} {y:.1}")? } else { write!(path, "H{x:.2}V{y:.1}")? }
        }
        write!(path, "H{:.2}", scale.x(last))?;
        if let (Some((first, _)), true) = (series.points.first(), *area != "none") {
            writeln!(
                svg,
                r#"<path d="{path}V{end:.1}H{:.2}Z" fill="{area}" fill-opacity="0.55"/>"#,
                scale.x(*first)
            )?;
        }
        let dash = if *area == "none" { r#" stroke-dasharray="5 2""# } else { "" };
        writeln!(
            svg,
            r#"<path d="{path}" fill="none" stroke="{line}" stroke-width="1.4"{dash}/>"#
        )?;
    }
    if let Some(limit) = timeline.limit_bytes {
        let y = y(limit);
        writeln!(
            svg,
            r##"<path d="M{LEFT} {y:.1}H{RIGHT}" stroke="#b3261e" stroke-width="1.6"/><text x="{:.1}" y="{:.1}" text-anchor="end" font-size="11" fill="#b3261e">{}</text>"##,
            LEFT - 8.0,
            y + 4.0,
            bytes::text(limit),
        )?;
    }
    Ok(())
}

fn marks(timeline: &Timeline, svg: &mut String, scale: &Scale, chart_end: f64) -> fmt::Result {
    for mark in &timeline.marks {
        let x = scale.x(mark.at_ns);
        // A label near the right edge stands left of its line.
        let (anchor, offset) = if x > WIDTH / 2.0 { ("end", -5.0) } else { ("start", 5.0) };
        writeln!(
            svg,
            r##"<path d="M{x:.2} {:.1}V{chart_end:.1}" stroke="#b3261e" stroke-width="2"/><text x="{:.1}" y="{:.1}" text-anchor="{anchor}" font-weight="bold" fill="#b3261e">{}</text>"##,
            scale.top - 12.0,
            x + offset,
            scale.top - 4.0,
            Escaped(&mark.label),
        )?;
    }
    Ok(())
}

fn legends(timeline: &Timeline, svg: &mut String, y: f64) -> fmt::Result {
    let mut entries: Vec<(String, String)> = Vec::new();
    for class in Class::ALL {
        if timeline.spans.iter().any(|span| span.class == class) {
            let sign = format!(
                r##"<rect y="-5" width="16" height="11" fill="{}" stroke="#bbb" stroke-width="0.5"/>"##,
                fill(class)
            );
            entries.push((sign, class.text().to_owned()));
        }
    }
    for (series, (area, line)) in timeline.series.iter().zip(SERIES_COLOURS.iter().cycle()) {
        if series.points.len() == 1 {
            continue;
        }
        let width = if *area == "none" { 1.5 } else { 5.0 };
        let dash = if *area == "none" { r#" stroke-dasharray="5 2""# } else { "" };
        let sign = format!(r#"<path d="M0 0h16" stroke="{line}" stroke-width="{width}"{dash}/>"#);
        entries.push((sign, format!("bytes {}", series.name)));
    }
    if timeline.limit_bytes.is_some() {
        let sign = r##"<path d="M0 0h16" stroke="#b3261e" stroke-width="1.6"/>"##.to_owned();
        entries.push((sign, "budget".to_owned()));
    }
    let mut x = LEFT;
    for (sign, text) in entries {
        writeln!(
            svg,
            r#"<g transform="translate({x:.1} {y:.1})">{sign}<text x="21" y="4" font-size="11">{}</text></g>"#,
            Escaped(&text)
        )?;
        x += 38.0 + text.chars().count() as f64 * 5.8;
    }
    Ok(())
}
