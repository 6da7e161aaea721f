use super::*;

fn totals(puts: u64) -> Totals {
    Totals { puts, ..Totals::default() }
}

fn date(day: i8) -> Option<Date> {
    Some(jiff::civil::date(2024, 1, day))
}

#[test]
fn rates_are_taken_over_the_spans_that_there_are() {
    let mut broker = Broker::default();
    assert_eq!(broker.per_second(10, |t| t.puts), 0.0);
    for second in 0..700_u32 {
        broker.sample(i64::from(second) * 1_000, date(1), totals(u64::from(second) * 3));
    }
    for seconds in [10, 60, 600] {
        assert!((broker.per_second(seconds, |t| t.puts) - 3.0).abs() < 1e-9);
    }
    let mut young = Broker::default();
    young.sample(0, date(1), totals(0));
    young.sample(2_000, date(1), totals(10));
    assert!((young.per_second(600, |t| t.puts) - 5.0).abs() < 1e-9);
}

#[test]
fn midnight_keeps_the_totals() {
    let mut broker = Broker::default();
    broker.sample(0, date(1), totals(5));
    assert_eq!(broker.mornings, Mornings::default());
    broker.sample(1_000, date(2), totals(7));
    broker.sample(2_000, date(2), totals(9));
    assert_eq!(broker.mornings, Mornings { yesterday: totals(0), today: totals(7) });
    broker.sample(3_000, date(3), totals(20));
    assert_eq!(broker.mornings, Mornings { yesterday: totals(7), today: totals(20) });
}

#[test]
fn items_are_due_every_ten_seconds() {
    let mut broker = Broker::default();
    assert!(broker.sample(1_700_000_000_000, date(1), totals(0)));
    assert!(!broker.sample(1_700_000_009_999, date(1), totals(0)));
    assert!(broker.sample(1_700_000_010_000, date(1), totals(0)));
}

#[test]
fn sums_and_averages_are_those_of_the_span() {
    let (mut counts, mut bytes) = (History::default(), History::default());
    for (second, count) in [(0, 1), (10, 11)] {
        counts.sample(second * 1_000, count);
        bytes.sample(second * 1_000, count * 100);
    }
    let figure = bytes.kept_figure(Some(&counts)).unwrap();
    assert_eq!(figure.stats_minute.sum, 1_100);
    assert!((figure.stats_minute.avgpt - 100.0).abs() < 1e-9);
    assert!((figure.stats_minute.tps - 55.0).abs() < 1e-9);
    assert!(History::default().kept_figure(None).is_none());
}
