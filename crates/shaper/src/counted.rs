//! How a policy is read: what each is told of its line, beside what is its own. serde's `flatten` would take that apart too, but say of a
//! misspelt key that another one is missing, and not which ones there are.

/// A policy with [`Counting`](crate::Counting) in it, and the table in which a person writes both side by side.
macro_rules! counted {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* pub $field:ident: $kind:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(from = "Written", rename_all = "kebab-case")]
        pub struct $name {
            /// The line's rate, and how packets are counted there.
            #[serde(flatten)]
            pub counting: $crate::Counting,
            $( $(#[$field_meta])* pub $field: $kind, )*
        }

        /// As it is written.
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        struct Written {
            rate: quell_units::Rate,
            #[serde(default)]
            overhead: u16,
            #[serde(default)]
            link: Option<$crate::LineType>,
            #[serde(default)]
            headless: bool,
            $( $(#[$field_meta])* $field: $kind, )*
        }

        impl From<Written> for $name {
            fn from(written: Written) -> Self {
                let Written { rate, overhead, link, headless, $( $field, )* } = written;
                $name { counting: $crate::Counting { rate, overhead, link, headless }, $( $field, )* }
            }
        }
    };
}

pub(crate) use counted;
