//! What fastjson writes is read, whatever the sender; what it reads is written.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Sample {
    flag: bool,
    list: Vec<i32>,
    name: String,
    note: Option<String>,
    number: i64,
    rate: f64,
    table: BTreeMap<i32, String>,
}

fn read(text: &str) -> Sample {
    from_slice(text.as_bytes()).unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn of_a_member_that_comes_twice_the_last_counts() {
    let found =
        read(r#"{"name":"a","number":1,"table":{1:"x"},"name":"b","number":2,"table":{2:"y"}}"#);
    assert_eq!((&*found.name, found.number), ("b", 2));
    assert_eq!(found.table, BTreeMap::from([(2, "y".to_owned())]));
    let nested: Vec<Sample> = from_slice(br#"[{"name":"a"},{'name':"b",name:"c"}]"#).unwrap();
    assert_eq!(nested[1].name, "c");
    assert!(from_slice::<Sample>(br#"{"name":"a","name":"b""#).is_err());
    let deep = format!("{}1{}", r#"{"x":["#.repeat(200), "]}".repeat(200));
    assert!(
        from_slice::<Sample>(format!(r#"{{"name":1,"name":2,"y":{deep}}}"#).as_bytes()).is_err()
    );
}

#[test]
fn strict_json_is_read() {
    let sample = read(
        r#" {"flag":true,"list":[1,-2],"name":"a\"\u00e9\ud83d\ude80\/","note":"n",
            "number":1796038624862,"rate":0.5,"table":{"0":"x","1":"y"}} "#,
    );
    assert_eq!(
        sample,
        Sample {
            flag: true,
            list: vec![1, -2],
            name: "a\"é🚀/".into(),
            note: Some("n".into()),
            number: 1_796_038_624_862,
            rate: 0.5,
            table: BTreeMap::from([(0, "x".into()), (1, "y".into())]),
        }
    );
}

#[test]
fn what_only_fastjson_takes_is_read() {
    let sample =
        read("{flag:1,'list':Set[1,,2,],name:'it\\'s \\x41\t',number:'7',table:{0:\"x\",-1:'y'},}");
    assert_eq!(sample.list, [1, 2]);
    assert_eq!(sample.name, "it's A\t");
    assert_eq!((sample.flag, sample.number), (true, 7));
    assert_eq!(sample.table[&-1], "y");
}

#[test]
fn null_and_missing_are_the_default() {
    let sample = read(
        r#"{"flag":null,"list":null,"name":null,"note":null,"number":null,"rate":null,"table":null}"#,
    );
    assert_eq!(sample, Sample::default());
    assert_eq!(read("{}"), Sample::default());
    assert_eq!(read("null"), Sample::default());
    assert_eq!(read(r#"{"list":[1,null,2]}"#).list, [1, 2]);
    assert_eq!(read(r#"{"table":{0:null,1:"y"}}"#).table.len(), 1);
}

#[test]
fn other_types_are_turned_into_the_wanted_one() {
    let sample = read(r#"{"flag":"TRUE","number":"12","name":5,"rate":"1e3","list":["3",4.9]}"#);
    assert_eq!((sample.flag, sample.number, sample.rate), (true, 12, 1000.0));
    assert_eq!(sample.name, "5");
    assert_eq!(sample.list, [3, 4]);
    assert_eq!(read(r#"{"number":"","name":false}"#).name, "false");
}

#[test]
fn type_hints_and_references_are_unknown_fields() {
    let sample = read(
        r#"{"@type":"com.example.Gadget","$ref":"$.a","x":{"@type":"y","val":[{"a":[]}]},"number":1}"#,
    );
    assert_eq!(sample, Sample { number: 1, ..Sample::default() });
}

#[test]
fn objects_as_keys_reach_a_text_key_as_their_text() {
    let table: BTreeMap<String, i32> =
        from_slice(br#"{{"brokerName":"b","queueId":1,"topic":"t"}:5,{a:{}}:6}"#).unwrap();
    assert_eq!(table[r#"{"brokerName":"b","queueId":1,"topic":"t"}"#], 5);
    assert_eq!(table["{a:{}}"], 6);
}

#[test]
fn broken_text_is_refused_with_its_place() {
    for (broken, at) in [
        ("", 0),
        ("{", 1),
        ("{}x", 2),
        (r#"{"number":1"#, 11),
        (r#"{"number" 1}"#, 10),
        (r#"{"number":1 "flag":true}"#, 12),
        (r#"{"name":"abc"#, 12),
        (r#"{"name":"\u12"}"#, 11),
        (r#"{"number":[1]}"#, 10),
        (r#"{"flag":perhaps}"#, 15),
        (r#"{:1}"#, 1),
        ("[1}", 0),
    ] {
        let error = from_slice::<Sample>(broken.as_bytes()).unwrap_err();
        assert_eq!(error.at, at, "{broken}: {error}");
    }
    assert!(from_slice::<Sample>(br#"{"list":[99999999999]}"#).is_err(), "no 32 bits");
}

#[test]
fn broken_unicode_is_replaced() {
    assert_eq!(read(r#"{"name":"\ud83d x"}"#).name, "\u{FFFD} x");
    assert_eq!(read(r#"{"name":"\ud83d\u0041"}"#).name, "\u{FFFD}A");
    let sample: Sample = from_slice(b"{\"name\":\"\xff\"}").unwrap();
    assert_eq!(sample.name, "\u{FFFD}");
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize, open: &str, close: &str| {
        format!("{{\"x\":{}{}}}", open.repeat(depth), close.repeat(depth))
    };
    let most = crate::limits::JSON_DEPTH_MAX as usize - 1;
    assert!(from_slice::<Sample>(nested(most, "[", "]").as_bytes()).is_ok());
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{", ":1}")] {
        assert!(from_slice::<Sample>(nested(1_000_000, open, close).as_bytes()).is_err());
    }
}

#[test]
fn the_number_of_objects_is_bounded() {
    let many = format!("[{}]", "{},".repeat(100_000));
    assert!(from_slice::<Vec<Sample>>(many.as_bytes()).is_err());
    let real = format!("[{}]", r#"{"number":1,"name":"n"},"#.repeat(100_000));
    assert_eq!(from_slice::<Vec<Sample>>(real.as_bytes()).unwrap().len(), 100_000);
}

#[test]
fn keys_are_written_as_they_are_or_quoted() {
    let table = BTreeMap::from([(0_i64, "a"), (1, "b")]);
    assert_eq!(text(to_vec(&table).unwrap()), r#"{0:"a",1:"b"}"#);
    assert_eq!(text(to_vec_standard(&table).unwrap()), r#"{"0":"a","1":"b"}"#);
    let table = BTreeMap::from([("0", "a")]);
    assert_eq!(text(to_vec(&table).unwrap()), r#"{"0":"a"}"#);
    let table = BTreeMap::from([((1, 2), "a")]);
    assert_eq!(text(to_vec(&table).unwrap()), r#"{[1,2]:"a"}"#);
    assert_eq!(text(to_vec_standard(&table).unwrap()), r#"{"[1,2]":"a"}"#);
}

#[test]
fn nulls_are_not_written() {
    let sample = Sample { name: "null".into(), ..Sample::default() };
    assert_eq!(
        text(to_vec(&sample).unwrap()),
        r#"{"flag":false,"list":[],"name":"null","number":0,"rate":0.0,"table":{}}"#
    );
    let table = BTreeMap::from([("a", None), ("b", Some(1)), ("c", None)]);
    assert_eq!(text(to_vec(&table).unwrap()), r#"{"b":1}"#);
    assert_eq!(text(to_vec(&BTreeMap::from([("a", f64::NAN)])).unwrap()), "{}");
}

#[test]
fn special_characters_are_escaped() {
    let written = text(to_vec("a\"\\\n\t\u{1}é\u{7f}").unwrap());
    assert_eq!(written, r#""a\"\\\n\t\u0001é\u007F""#);
}

#[test]
fn the_pretty_form_is_fastjsons() {
    let table = BTreeMap::from([(
        "offsetTable",
        BTreeMap::from([("t@g", BTreeMap::from([(0, 5), (1, 6)])), ("u@g", BTreeMap::new())]),
    )]);
    assert_eq!(
        text(to_vec_pretty(&table).unwrap()),
        "{\n\t\"offsetTable\":{\n\t\t\"t@g\":{0:5,1:6\n\t\t},\n\t\t\"u@g\":{}\n\t}\n}"
    );
    let sample = Sample { list: vec![1, 2], ..Sample::default() };
    assert_eq!(
        text(to_vec_pretty(&sample).unwrap()),
        "{\n\t\"flag\":false,\n\t\"list\":[\n\t\t1,\n\t\t2\n\t],\n\t\"name\":\"\",\n\t\"number\":0,\
         \n\t\"rate\":0.0,\n\t\"table\":{}\n}"
    );
}

proptest! {
    #[test]
    fn every_form_is_read_back(
        flag in any::<bool>(),
        list in any::<Vec<i32>>(),
        name in any::<String>(),
        note in any::<Option<String>>(),
        number in any::<i64>(),
        rate in any::<f64>().prop_filter("JSON has no others", |rate| rate.is_finite()),
        table in any::<BTreeMap<i32, String>>(),
    ) {
        let sample = Sample { flag, list, name, note, number, rate, table };
        for written in [to_vec(&sample), to_vec_standard(&sample), to_vec_pretty(&sample)] {
            prop_assert_eq!(&from_slice::<Sample>(&written.unwrap()).unwrap(), &sample);
        }
        let standard = to_vec_standard(&sample).unwrap();
        let mut strict = serde_json::from_slice::<Sample>(&standard).unwrap();
        // Not every reader is exact to the last digit.
        strict.rate = sample.rate;
        prop_assert_eq!(&strict, &sample);
    }

    #[test]
    fn any_bytes_are_judged(bytes in any::<Vec<u8>>(), json in "[\\[\\]{}:,\"'0-9a-fnul.\\\\-]{0,40}") {
        let _ = from_slice::<Sample>(&bytes);
        let _ = from_slice::<Sample>(json.as_bytes());
        let _ = from_slice::<BTreeMap<String, Sample>>(json.as_bytes());
    }
}
