//! The compiled protocol is the contract, field by field and call by call, and nothing more.

use std::collections::BTreeSet;

use pko_proto::DESCRIPTORS;
use prost::Message as _;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

fn compiled() -> FileDescriptorProto {
    let files = FileDescriptorSet::decode(DESCRIPTORS).expect("the descriptors are what the build wrote");
    files.file.into_iter().find(|file| file.package() == "agent").expect("the agent's package is among them")
}

fn lines(file: &FileDescriptorProto) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for message in &file.message_type {
        if message.field.is_empty() {
            lines.insert(message.name().to_owned());
        }
        lines.extend(message.field.iter().map(|field| line(message, field)));
    }
    for service in &file.service {
        assert_eq!(service.name(), "AutomationService");
        for method in &service.method {
            let stream = if method.server_streaming() { "stream " } else { "" };
            let (input, output) = (last(method.input_type()), last(method.output_type()));
            lines.insert(format!("rpc {} {input} {stream}{output}", method.name()));
        }
    }
    lines
}

fn line(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let kind = match field.r#type() {
        Type::String => "string".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Int32 => "int32".to_owned(),
        Type::Bytes => "bytes".to_owned(),
        Type::Message => match message.nested_type.iter().find(|n| n.name() == last(field.type_name())) {
            Some(entry) => format!("map {}", last(entry.field[1].type_name())),
            None => last(field.type_name()).to_owned(),
        },
        other => format!("{other:?}"),
    };
    let label = if field.proto3_optional() {
        " optional".to_owned()
    } else if let Some(index) = field.oneof_index {
        let index = usize::try_from(index).expect("an index is not negative");
        format!(" oneof {}", message.oneof_decl[index].name())
    } else if field.label() == Label::Repeated {
        " repeated".to_owned()
    } else {
        String::new()
    };
    format!("{} {} {} {kind}{label}", message.name(), field.number(), field.name())
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

#[test]
fn every_field_and_call_is_as_the_contract_says() {
    let contract: BTreeSet<String> = include_str!("fixtures/agent-contract.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    let compiled = lines(&compiled());
    let missing: Vec<&String> = contract.difference(&compiled).collect();
    let added: Vec<&String> = compiled.difference(&contract).collect();
    assert!(missing.is_empty() && added.is_empty(), "missing: {missing:#?}\nadded: {added:#?}");
}
