//! Faults of bytes that a peer sent: the only list of them.
//!
//! Each fault has a name for vectors and logs, ends the connection with one [`CloseReason`] and is
//! sent to a version 7 peer as one result code before that (MIOP 9). Classic peers get nothing:
//! their format has no frame for it.

use super::result::ResultCode;
use model::close::CloseReason;

macro_rules! faults {
    ($($variant:ident $name:literal $reason:ident $code:ident $meaning:literal;)+) => {
        /// Why bytes were not taken.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum FrameFault { $(#[doc = $meaning] $variant,)+ }

        impl FrameFault {
            /// All faults.
            pub const ALL: &'static [FrameFault] = &[$(FrameFault::$variant,)+];

            /// The name in vectors and in the `reason` of an ERROR.
            pub const fn name(self) -> &'static str {
                match self { $(FrameFault::$variant => $name,)+ }
            }

            /// How the connection ends.
            pub const fn close_reason(self) -> CloseReason {
                match self { $(FrameFault::$variant => CloseReason::$reason,)+ }
            }

            /// Result code that a version 7 peer gets for the fault.
            pub const fn result(self) -> ResultCode {
                match self { $(FrameFault::$variant => ResultCode::$code,)+ }
            }
        }
    };
}

faults! {
    UnknownVersion "unknown_version" UnknownVersion Version "A version below 5, or no MIOP.";
    NewerVersion "newer_version" UnknownVersion Version "A version above 7: answered as 7.";
    VersionChanged "version_changed" Malformed Version "Not the version of the first frame.";
    UnknownOpcode "unknown_opcode" UnknownOpcode BadFrame "An opcode that is not known.";
    TooLarge "too_large" TooLarge TooLarge "More bytes or more of something than allowed.";
    MustUnderstand "must_understand" Malformed BadFrame "The flag 0x80 is set.";
    BadFlags "bad_flags" Malformed BadFrame "COMPRESSED, MORE, or SEQ without BODY.";
    BadLength "bad_length" Malformed BadFrame "Lengths inside a frame do not fit each other.";
    EmptyBlock "empty_block" Malformed BadFrame "A block that must hold something is empty.";
    BadProperty "bad_property" Malformed BadFrame "A property's form or value is not allowed.";
    CriticalProperty "critical_property" Malformed BadFrame "An unknown property key above 127.";
    MissingProperty "missing_property" Malformed BadFrame "A property that must be there is not.";
    BadName "bad_name" Malformed BadFrame "A device id, product key or tag is not a name.";
    BadRecord "bad_record" Malformed BadFrame "A record is cut off or says nothing.";
    MissingSeq "missing_seq" Malformed BadFrame "A Report without a number.";
    OutOfOrder "out_of_order" OutOfOrder BadFrame "A frame that is not allowed in this state.";
}
