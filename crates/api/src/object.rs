//! The shape every kind has: metadata, one payload, a status. Written once, as a macro.

/// Defines an object struct with its (de)serialisation and its `kube::Resource`.
///
/// A missing or null payload decodes as its default, as it does in Go. `apiVersion` and `kind` may
/// be absent (items of a list), but when present they must be the kind's own.
macro_rules! object {
    (
        $(#[$doc:meta])*
        pub struct $name:ident = $group:literal, $version:literal, $plural:literal {
            $payload:ident: $payload_type:ty,
            status: $status_type:ty,
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            /// Name, namespace, labels, annotations, owners, finalizers.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// What the user asks for.
            pub $payload: $payload_type,
            /// What was observed and done; written through the status subresource.
            pub status: Option<$status_type>,
        }

        impl $name {
            /// `group/version`, as in an object's `apiVersion`.
            pub const API_VERSION: &'static str = concat!($group, "/", $version);
            /// As in an object's `kind`.
            pub const KIND: &'static str = stringify!($name);

            /// An object of that name with that payload, and nothing else set.
            pub fn new(name: impl Into<String>, $payload: $payload_type) -> Self {
                let mut object = Self { $payload, ..Self::default() };
                object.metadata.name = Some(name.into());
                object
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct as _;
                let fields = 4 + usize::from(self.status.is_some());
                let mut object = serializer.serialize_struct(stringify!($name), fields)?;
                object.serialize_field("apiVersion", Self::API_VERSION)?;
                object.serialize_field("kind", Self::KIND)?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field(stringify!($payload), &self.$payload)?;
                if let Some(status) = &self.status {
                    object.serialize_field("status", status)?;
                }
                object.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                struct Wire {
                    #[serde(default, rename = "apiVersion")]
                    api_version: Option<String>,
                    #[serde(default)]
                    kind: Option<String>,
                    #[serde(default, deserialize_with = "crate::lenient::null_default")]
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
                    #[serde(default, deserialize_with = "crate::lenient::null_default")]
                    $payload: $payload_type,
                    #[serde(default)]
                    status: Option<$status_type>,
                }
                let wire = Wire::deserialize(deserializer)?;
                crate::object::must_be::<D::Error>("apiVersion", wire.api_version, Self::API_VERSION)?;
                crate::object::must_be::<D::Error>("kind", wire.kind, Self::KIND)?;
                Ok(Self { metadata: wire.metadata, $payload: wire.$payload, status: wire.status })
            }
        }

        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = kube::core::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                Self::KIND.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn api_version((): &()) -> std::borrow::Cow<'_, str> {
                Self::API_VERSION.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(crate) fn must_be<E: serde::de::Error>(what: &str, found: Option<String>, expected: &str) -> Result<(), E> {
    match found {
        Some(found) if found != expected => Err(E::custom(format_args!("{what} is {found:?}, expected {expected:?}"))),
        _ => Ok(()),
    }
}
