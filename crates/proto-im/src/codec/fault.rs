//! Faults of bytes that a peer sent: the only list of them.
//!
//! Each fault has a name, which the peer gets as the word of an End, with the reason that stands
//! beside it (IM 8.1), and ends the connection with one [`CloseReason`].

use super::EndReason;
use model::close::CloseReason;

macro_rules! faults {
    ($($variant:ident $name:literal $reason:ident $meaning:literal;)+) => {
        /// Why bytes were not taken.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum WireFault { $(#[doc = $meaning] $variant,)+ }

        impl WireFault {
            /// All faults.
            pub const ALL: &'static [WireFault] = &[$(WireFault::$variant,)+];

            /// The name in vectors, and the word of an End.
            pub const fn name(self) -> &'static str {
                match self { $(WireFault::$variant => $name,)+ }
            }

            /// How the connection ends.
            pub const fn close_reason(self) -> CloseReason {
                match self { $(WireFault::$variant => CloseReason::$reason,)+ }
            }

            /// Reason that the peer gets for the fault.
            pub const fn end_reason(self) -> EndReason {
                match self { $(WireFault::$variant => EndReason::$reason,)+ }
            }
        }
    };
}

faults! {
    Preface "preface" Malformed "The first bytes are not those of IM.";
    UnknownVersion "unknown_version" UnknownVersion "A version that is not served.";
    Length "length" Malformed "A frame's length has more than five bytes.";
    TooLarge "too_large" TooLarge "A frame is larger than allowed.";
    Truncated "truncated" Malformed "A field is longer than what it stands in.";
    Varint "varint" Malformed "A number has more than ten bytes, or more than 64 bits.";
    FieldNumber "field_number" Malformed "A field has a number that no field may have.";
    WireType "wire_type" Malformed "A field is not of the type that it has in the schema.";
    Range "range" Malformed "A number is too large for its field.";
    Text "text" Malformed "A text is not UTF-8.";
    Address "address" Malformed "What should be an account's address is none.";
    NoRequest "no_request" Malformed "A frame without a request that is known here.";
    OutOfOrder "out_of_order" OutOfOrder "A frame that is not allowed in this state.";
}
