//! Apache's own integration tests, as published on Maven Central, against a cluster of two masters.
//!
//! Left out: what needs transactions, SQL filters or TLS, and what starts brokers of its own. Of
//! the delay class each delay is checked to half a second, so it runs apart from the others.

use std::process::Command;

use system_tests::cache;

use crate::clients::{assert_steps, cluster, source};

fn run_classes(package: &str, classes: &[(&str, u32)]) {
    let folder = source("apache-it");
    let jars = cache::jars("apache-it", &folder.join("pom.xml"), &[]).unwrap();
    let compiled = cache::classes("apache-it-runner", &folder.join("src"), &jars).unwrap();
    let names: Vec<String> = classes.iter().map(|(name, _)| format!("{package}{name}")).collect();
    let cluster = cluster();
    let mut program = Command::new("java");
    program
        .arg("-Xmx512m")
        .arg(format!("-Duser.home={}", cluster.folder().display()))
        .arg("-cp")
        .arg(format!("{}:{}/*", compiled.display(), jars.display()))
        .arg("Main")
        .args(&names);
    let counted = names.iter().zip(classes);
    let expected: Vec<String> =
        counted.map(|(name, (_, tests))| format!("{name} {tests} tests")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    assert_steps(&cluster, &mut program, &expected);
}

#[test]
fn apache_producers() {
    let classes = [
        ("batch.BatchSendIT", 2),
        ("oneway.OneWaySendIT", 1),
        ("oneway.OneWaySendWithMQIT", 1),
        ("oneway.OneWaySendWithSelectorIT", 1),
        ("oneway.OneWaySendExceptionIT", 3),
        ("async.AsyncSendWithOnlySendCallBackIT", 1),
        ("async.AsyncSendWithMessageQueueIT", 1),
        ("async.AsyncSendWithMessageQueueSelectorIT", 1),
        ("async.AsyncSendExceptionIT", 6),
        ("exception.msg.ChinaPropIT", 2),
        ("exception.msg.MessageExceptionIT", 10),
        ("exception.msg.MessageUserPropIT", 2),
        ("exception.producer.ProducerGroupAndInstanceNameValidityIT", 2),
        ("querymsg.QueryMsgByIdIT", 1),
        ("querymsg.QueryMsgByIdExceptionIT", 2),
        ("querymsg.QueryMsgByKeyIT", 4),
        ("order.OrderMsgIT", 3),
        ("order.OrderMsgWithTagIT", 5),
        ("order.OrderMsgRebalanceIT", 2),
        ("order.OrderMsgDynamicRebalanceIT", 2),
    ];
    run_classes("client.producer.", &classes);
}

#[test]
fn apache_consumers() {
    let classes = [
        ("cluster.DynamicAddAndCrashIT", 2),
        ("cluster.DynamicAddConsumerIT", 2),
        ("cluster.DynamicCrashConsumerIT", 2),
        ("balance.NormalMsgDynamicBalanceIT", 2),
        ("balance.NormalMsgStaticBalanceIT", 2),
        ("topic.MulConsumerMulTopicIT", 3),
        ("topic.OneConsumerMulTopicIT", 3),
        ("tag.MulTagSubIT", 5),
        ("tag.TagMessageWithMulConsumerIT", 4),
        ("tag.TagMessageWithSameGroupConsumerIT", 3),
        ("tag.TagMessageWith1ConsumerIT", 8),
    ];
    run_classes("client.consumer.", &classes);
}

#[test]
fn apache_broadcast() {
    let classes = [
        ("normal.BroadCastNormalMsgNotRecvIT", 1),
        ("normal.BroadCastNormalMsgRecvFailIT", 1),
        ("normal.BroadCastNormalMsgRecvStartLaterIT", 1),
        ("normal.BroadCastNormalMsgRecvCrashIT", 1),
        ("normal.NormalMsgTwoSameGroupConsumerIT", 1),
        ("normal.BroadCastNormalMsgTwoDiffGroupRecvIT", 1),
        ("tag.BroadCastTwoConsumerSubTagIT", 1),
        ("tag.BroadCastTwoConsumerSubDiffTagIT", 1),
        ("tag.BroadCastTwoConsumerFilterIT", 1),
    ];
    run_classes("client.consumer.broadcast.", &classes);
}

#[test]
fn apache_smoke_and_delay() {
    run_classes("", &[("smoke.NormalMessageSendAndRecvIT", 1), ("delay.NormalMsgDelayIT", 4)]);
}
