//! Settings of a running broker: what may change does at once and stays; what says where files are
//! never changes from afar.

use broker_client::ClientError;
use broker_protocol::code::{request, response};
use broker_protocol::header::NoHeader;

use crate::support::{Server, refusal};

async fn change(server: &Server, text: &str) -> Result<(), ClientError> {
    server.call(request::UPDATE_BROKER_CONFIG, &NoHeader, text.as_bytes()).await.map(drop)
}

async fn setting(server: &Server, key: &str) -> Option<String> {
    let admin = server.client.admin();
    admin.broker_config(server.address()).await.unwrap().get(key).cloned()
}

#[tokio::test]
async fn keys_of_paths_do_not_change_from_afar() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("elsewhere");
    let server = Server::start(&[]);
    let admin = server.client.admin();
    let before = admin.broker_config(server.address()).await.unwrap();
    let file = server.broker.store_folder().parent().unwrap().join("broker.conf");
    let written = std::fs::read(&file).unwrap();
    for key in [
        "storePathRootDir",
        "storePathCommitLog",
        "rocketmqHome",
        "configBlackList",
        "kvConfigPath",
    ] {
        for text in [
            format!("{key}={}\n", elsewhere.display()),
            format!("maxMessageSize=4096\n{key}={}\n", elsewhere.display()),
            format!(" {key} = {}\n", elsewhere.display()),
        ] {
            let (code, remark) = refusal(change(&server, &text).await);
            assert!(code != response::SUCCESS && !remark.is_empty(), "{key}");
        }
    }
    assert_eq!(admin.broker_config(server.address()).await.unwrap(), before, "all or nothing");
    assert_eq!(std::fs::read(&file).unwrap(), written);
    assert!(!elsewhere.exists());
}

#[tokio::test]
async fn a_value_adds_no_line() {
    let mut server = Server::start(&[]);
    for text in [
        "regionId=a\\nstorePathRootDir=/elsewhere\n",
        "regionId=a\\\n  storePathRootDir=/elsewhere\n",
        "regionId=a\rstorePathRootDir=/elsewhere\n",
    ] {
        let root = setting(&server, "storePathRootDir").await;
        // Taken as one odd value, or refused.
        let _either_way = change(&server, text).await;
        assert_eq!(setting(&server, "storePathRootDir").await, root, "{text:?}");
        server.stop().await;
        server.restart();
        assert_eq!(setting(&server, "storePathRootDir").await, root, "{text:?}");
    }
}

#[tokio::test]
async fn changes_outlive_the_process() {
    let server = Server::start(&[]);
    change(&server, "maxMessageSize=2048\nbrokerPermission=4\n").await.unwrap();
    assert_eq!(setting(&server, "maxMessageSize").await.as_deref(), Some("2048"));
    assert_eq!(setting(&server, "brokerPermission").await.as_deref(), Some("4"));
    // The next start reads them from the file that this one was started with.
    let file = server.broker.store_folder().parent().unwrap().join("broker.conf");
    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.contains(&"maxMessageSize=2048") && lines.contains(&"brokerPermission=4"));
    assert!(lines.contains(&"brokerName=broker-a"), "what it said before is kept:\n{text}");
    // One bad value, and nothing of the change counts.
    for bad in
        ["maxMessageSize=4096\nbrokerPermission=seven\n", "maxMessageSize=4096\nbrokerId=x\n"]
    {
        assert!(!refusal(change(&server, bad).await).1.is_empty());
        assert_eq!(setting(&server, "maxMessageSize").await.as_deref(), Some("2048"));
    }
    // A change of nothing changes nothing, however it is answered.
    for nothing in ["", "\n\n", "# only a remark\n"] {
        let _either_way = change(&server, nothing).await;
        assert_eq!(
            setting(&server, "maxMessageSize").await.as_deref(),
            Some("2048"),
            "{nothing:?}"
        );
    }
}
