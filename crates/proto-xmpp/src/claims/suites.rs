//! Demands of the compliance suites of 2023 on a server (XEP-0479).

/// A suite.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// Its name.
    pub name: &'static str,
    /// Features that it demands of a server.
    pub asks: &'static [SuiteAsk],
}

/// One thing that a suite asks for.
#[derive(Clone, Copy, Debug)]
pub struct SuiteAsk {
    /// Name of the feature in the suite.
    pub feature: &'static str,
    /// Whether it is demanded of advanced servers alone.
    pub is_advanced: bool,
    /// RFCs that say it.
    pub rfcs: &'static [u16],
    /// Extensions that say it, all of them.
    pub xeps: &'static [u16],
}

const fn core(feature: &'static str, rfcs: &'static [u16], xeps: &'static [u16]) -> SuiteAsk {
    SuiteAsk { feature, is_advanced: false, rfcs, xeps }
}

const fn advanced(feature: &'static str, xeps: &'static [u16]) -> SuiteAsk {
    SuiteAsk { feature, is_advanced: true, rfcs: &[], xeps }
}

/// The suites.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "Core",
        asks: &[
            core("Core features", &[6120], &[]),
            core("TLS", &[7590], &[]),
            core("Feature discovery", &[], &[30]),
            core("Server extensibility", &[], &[114]),
            advanced("Direct TLS", &[368]),
            advanced("Feature broadcasts", &[115]),
            advanced("Event publishing", &[163]),
        ],
    },
    Suite {
        name: "Web",
        asks: &[
            core("Web connection mechanism: WebSocket", &[7395], &[]),
            core("Web connection mechanism: BOSH", &[], &[124, 206]),
        ],
    },
    Suite {
        name: "IM",
        asks: &[
            core("Core features", &[6121], &[]),
            core("User avatars and profiles (vcard-temp)", &[], &[54]),
            core("Outbound message synchronization", &[], &[280]),
            core("Group chat", &[], &[45, 249]),
            core("File upload", &[], &[363]),
            advanced("User avatar compatibility", &[398, 153]),
            advanced("User blocking", &[191]),
            advanced("Group chat: archive", &[313]),
            advanced("Group chat: bookmarks, ping of oneself", &[48, 402, 410]),
            advanced("Persistent storage of private data by PubSub", &[223]),
            advanced("Private XML storage", &[49]),
            advanced("Stream management", &[198]),
            advanced("Message archive", &[313]),
        ],
    },
    Suite {
        name: "Mobile",
        asks: &[
            core("Stream management", &[], &[198]),
            core("Client state indication", &[], &[352]),
            advanced("Push notifications", &[357]),
        ],
    },
];
