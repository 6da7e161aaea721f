//! Writes the captured frames as the first inputs of the fuzzer, one file each, into the folder
//! named by the first argument.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder to write to"));
    std::fs::create_dir_all(&folder)?;
    let frames = include_str!("../../broker/protocol/testdata/frames.jsonl");
    for (number, line) in frames.lines().enumerate() {
        let frame: serde_json::Value = serde_json::from_str(line)?;
        let hex = frame["hex"].as_str().expect("every line has hex");
        let bytes: Vec<u8> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex digits"))
            .collect();
        std::fs::write(folder.join(format!("captured-{number}")), bytes)?;
    }
    Ok(())
}
