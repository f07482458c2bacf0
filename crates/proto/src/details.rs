//! The detail that PKO's agent puts first into the status of a failed call.

use prost::Message as _;
use prost_types::Any;

use crate::agent::PulumiErrorInfo;

const TYPE: &str = "type.googleapis.com/agent.PulumiErrorInfo";

/// The shape of google.rpc.Status, in which details travel.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// What the details of a status say about the failure, if they do so first.
pub fn error_info(details: &[u8]) -> Option<PulumiErrorInfo> {
    let first = RpcStatus::decode(details).ok()?.details.into_iter().next()?;
    if first.type_url != TYPE {
        return None;
    }
    PulumiErrorInfo::decode(first.value.as_slice()).ok()
}

/// The details of a status that say so.
pub fn error_details(info: &PulumiErrorInfo) -> Vec<u8> {
    const UNKNOWN: i32 = 2;
    // The carrier's own text is read by nobody; the long one would double the size of the headers.
    let detail = Any { type_url: TYPE.to_owned(), value: info.encode_to_vec() };
    RpcStatus { code: UNKNOWN, message: info.message.clone(), details: vec![detail] }.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_found_when_it_is_the_first_and_of_its_kind() {
        let info = PulumiErrorInfo { code: 409, reason: "UpdateConflict".to_owned(), message: "busy".to_owned() };
        let carrier = RpcStatus::decode(error_details(&info).as_slice()).unwrap();
        assert_eq!(carrier.details[0].type_url, "type.googleapis.com/agent.PulumiErrorInfo");
        assert_eq!(error_info(&error_details(&info)), Some(info));
        let other = Any { type_url: "type.googleapis.com/google.rpc.Help".to_owned(), value: Vec::new() };
        let other = RpcStatus { details: vec![other], ..RpcStatus::default() };
        assert_eq!(error_info(&other.encode_to_vec()), None);
        assert_eq!(error_info(b""), None);
        assert_eq!(error_info(b"\xff"), None);
    }
}
