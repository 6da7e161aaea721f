//! Doubles as Java prints them.

/// The text of `Double.toString`: always a fraction, an exponent outside of 0.001 up to 10,000,000.
#[must_use]
pub fn java_double(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-3..1e7).contains(&size) {
        // Debug keeps one digit after the point, and prints the shortest that reads back.
        return format!("{value:?}");
    }
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN".to_owned()
        } else if value > 0.0 {
            "Infinity".to_owned()
        } else {
            "-Infinity".to_owned()
        };
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let fraction = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{fraction}E{exponent}")
}

#[cfg(test)]
mod tests {
    use super::java_double;

    #[test]
    fn doubles_are_javas() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.016_680_845_385_244_124, "0.016680845385244124"),
            (0.001, "0.001"),
            (0.000_999, "9.99E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (-1.25e10, "-1.25E10"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(java_double(value), text);
        }
    }
}
