//! The delay levels of `messageDelayLevel`: how long a message of each level waits. The store needs
//! them because a unit of the delay topic says when its message is due. Who delivers is the
//! server's business.

/// How long each level waits. Levels are numbered from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayLevels {
    delays_ms: Box<[i64]>,
}

impl DelayLevels {
    /// Reads delays, each a number with its unit (`s`, `m`, `h`, `d`), separated by blanks. An
    /// error names the word that is no delay.
    pub fn parse(text: &str) -> Result<DelayLevels, String> {
        let delays: Result<Box<[i64]>, String> = text.split_whitespace().map(delay_ms).collect();
        let delays_ms = delays?;
        if delays_ms.is_empty() {
            return Err("names no delay".to_owned());
        }
        Ok(DelayLevels { delays_ms })
    }

    /// Each level with its delay in milliseconds.
    pub fn iter(&self) -> impl Iterator<Item = (i32, i64)> {
        (1..).zip(self.delays_ms.iter().copied())
    }

    /// The highest level.
    pub fn highest(&self) -> i32 {
        i32::try_from(self.delays_ms.len()).unwrap_or(i32::MAX)
    }

    /// The delay of `level` in milliseconds; levels beyond the last one wait as long as that.
    /// `None` for level 0 and below, which means no delay.
    pub fn delay_ms(&self, level: i32) -> Option<i64> {
        let place = usize::try_from(level).ok()?.checked_sub(1)?;
        self.delays_ms.get(place.min(self.delays_ms.len() - 1)).copied()
    }
}

fn delay_ms(word: &str) -> Result<i64, String> {
    let wrong = || format!("`{word}` is no delay: write a number and one of s, m, h, d");
    let unit = word.chars().last().ok_or_else(wrong)?;
    let factor = match unit {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        _ => return Err(wrong()),
    };
    let number = word.strip_suffix(unit).and_then(|number| number.parse::<u32>().ok());
    Ok(i64::from(number.ok_or_else(wrong)?) * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_read_with_their_units() {
        let levels = DelayLevels::parse("1s  30s 2m 1h 3d").unwrap();
        let of = |level| levels.delay_ms(level);
        assert_eq!([of(1), of(2), of(3)], [Some(1_000), Some(30_000), Some(120_000)]);
        assert_eq!([of(4), of(5)], [Some(3_600_000), Some(259_200_000)]);
        assert_eq!(levels.highest(), 5);
        assert_eq!(levels.iter().nth(1), Some((2, 30_000)));
        assert_eq!([of(0), of(-1), of(6), of(i32::MAX)], [None, None, of(5), of(5)]);
    }

    #[test]
    fn what_is_no_delay_is_named() {
        for (text, word) in [("1s 5x", "5x"), ("s", "s"), ("1s -2m", "-2m"), ("1ä", "1ä")] {
            let error = DelayLevels::parse(text).unwrap_err();
            assert!(error.contains(&format!("`{word}`")), "{error}");
        }
        assert!(DelayLevels::parse(" ").is_err());
    }
}
