//! Keys and certificates of one cluster, made anew each time it starts.

use std::fs;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::json;

use super::{network::Network, plan::NODE, state::State};

/// Who signs in: file name, common name, organisation.
const CLIENTS: &[(&str, &str, &str)] = &[
    ("admin", "admin", "system:masters"),
    ("kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
    ("controller-manager", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
    ("proxy", "system:kube-proxy", ""),
    ("dns", "system:kube-dns", "system:masters"),
];

pub(crate) fn write(state: &State, network: &Network) -> Result<()> {
    fs::create_dir_all(state.pki())?;
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    ca.distinguished_name.push(DnType::CommonName, "pko-cluster");
    save(state, "ca.crt", &ca.self_signed(&ca_key)?.pem())?;
    let ca = Issuer::new(ca, ca_key);

    let signer = KeyPair::generate()?;
    save(state, "sa.key", &signer.serialize_pem())?;
    save(state, "sa.pub", &signer.public_key_pem())?;

    let names =
        ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1"].map(str::to_owned);
    let names: Vec<String> = names.into_iter().chain([network.node(), network.first_service()]).collect();
    sign(state, &ca, "apiserver", "kube-apiserver", "", names)?;
    sign(state, &ca, "kubelet", &format!("system:node:{NODE}"), "system:nodes", vec![NODE.to_owned(), network.node()])?;
    for (file, name, organisation) in CLIENTS {
        sign(state, &ca, file, name, organisation, Vec::new())?;
    }
    for user in ["kubelet", "controller-manager", "scheduler", "proxy", "dns"] {
        fs::write(state.conf().join(format!("{user}.kubeconfig")), kubeconfig(state, network, user))?;
    }
    fs::write(state.kubeconfig(), kubeconfig(state, network, "admin")).context("writing the kubeconfig")
}

fn sign(
    state: &State,
    ca: &Issuer<'_, KeyPair>,
    file: &str,
    name: &str,
    organisation: &str,
    also: Vec<String>,
) -> Result<()> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(also)?;
    params.distinguished_name.push(DnType::CommonName, name);
    if !organisation.is_empty() {
        params.distinguished_name.push(DnType::OrganizationName, organisation);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    save(state, &format!("{file}.crt"), &params.signed_by(&key, ca)?.pem())?;
    save(state, &format!("{file}.key"), &key.serialize_pem())
}

fn save(state: &State, file: &str, pem: &str) -> Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let path = state.pki().join(file);
    let mut file = fs::File::options().create(true).truncate(true).write(true).mode(0o600).open(&path)?;
    file.write_all(pem.as_bytes()).with_context(|| format!("writing {}", path.display()))
}

fn kubeconfig(state: &State, network: &Network, user: &str) -> String {
    let pki = state.pki();
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pko",
        "clusters": [{"name": "pko", "cluster": {"server": format!("https://{}:6443", network.node()), "certificate-authority": pki.join("ca.crt")}}],
        "users": [{"name": user, "user": {"client-certificate": pki.join(format!("{user}.crt")), "client-key": pki.join(format!("{user}.key"))}}],
        "contexts": [{"name": "pko", "context": {"cluster": "pko", "user": user}}],
    })
    .to_string()
}
