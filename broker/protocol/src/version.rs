//! Protocol versions and client languages as numbered on the wire.

/// What every answer of ours reports: RocketMQ 4.9.3. Clients switch features on by this number.
pub const REPORTED: i32 = V4_9_3;
/// What every answer of ours reports as language. Old Java peers read an unknown name as null, so
/// the one name that all of them know is the safe one.
pub const REPORTED_LANGUAGE: Language = Language::Java;

/// First version that sends registrations with a typed body.
pub const V3_0_11: i32 = 37;
/// First version that understands offset resets pushed to the client.
pub const V3_0_7_SNAPSHOT: i32 = 28;
/// First version that answers running-info and consume-directly requests.
pub const V3_1_8_SNAPSHOT: i32 = 62;
/// First version whose send-back carries its own maximum of attempts.
pub const V3_4_9: i32 = 121;
/// RocketMQ 4.9.3.
pub const V4_9_3: i32 = 399;
/// RocketMQ 4.9.4: first that wants routes as strict JSON.
pub const V4_9_4: i32 = 401;
/// RocketMQ 5.0.0: first with static topic mappings in the compressed registration body.
pub const V5_0_0: i32 = 413;
/// RocketMQ 5.3.1: later ones understand "go away".
pub const V5_3_1: i32 = 475;
/// RocketMQ 5.3.3.
pub const V5_3_3: i32 = 479;
/// Every number from here on means "newer than anything named".
pub const HIGHER_VERSION: i32 = 612;

macro_rules! languages {
    ($($(#[$doc:meta])* $variant:ident = $code:literal $name:literal;)*) => {
        /// Language of the peer's client library, as its frames say.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Language { $($(#[$doc])* $variant,)* }

        impl Language {
            /// Name in JSON headers and in connection lists.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Byte in binary headers.
            #[must_use]
            pub fn code(self) -> u8 {
                match self { $(Self::$variant => $code,)* }
            }

            /// Unknown names are [`Language::Other`]: a new client library is no error.
            #[must_use]
            pub fn from_name(name: &[u8]) -> Self {
                $(if name == $name.as_bytes() { return Self::$variant; })*
                Self::Other
            }

            /// Unknown bytes are [`Language::Other`].
            #[must_use]
            pub fn from_code(code: u8) -> Self {
                match code { $($code => Self::$variant,)* _ => Self::Other }
            }
        }
    };
}

languages! {
    /// Java.
    Java = 0 "JAVA";
    /// C++.
    Cpp = 1 "CPP";
    /// .NET.
    DotNet = 2 "DOTNET";
    /// Python.
    Python = 3 "PYTHON";
    /// Delphi.
    Delphi = 4 "DELPHI";
    /// Erlang.
    Erlang = 5 "ERLANG";
    /// Ruby.
    Ruby = 6 "RUBY";
    /// Anything else, and what unknown names and bytes read as.
    Other = 7 "OTHER";
    /// An HTTP gateway.
    Http = 8 "HTTP";
    /// Go.
    Go = 9 "GO";
    /// PHP.
    Php = 10 "PHP";
    /// An OpenMessaging client.
    Oms = 11 "OMS";
    /// Rust.
    Rust = 12 "RUST";
    /// Node.js.
    NodeJs = 13 "NODE_JS";
}

impl std::fmt::Display for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
