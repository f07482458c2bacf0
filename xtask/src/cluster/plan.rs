//! What a cluster is made of: configuration files and the argument lists of its processes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{network::Network, sandbox, state::State};
use crate::tools;

pub(crate) const NODE: &str = "node1";

/// Its usual place would be made on the machine.
const VOLUME_PLUGINS: &str = "/var/lib/kubelet/volume-plugins";

/// One process of the cluster, kept running by its first process.
#[derive(Serialize, Deserialize)]
pub(crate) struct Component {
    pub(crate) name: String,
    pub(crate) argv: Vec<String>,
}

/// What the cluster's first process needs to know.
#[derive(Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) components: Vec<Component>,
    pub(crate) cgroup: String,
    files: Vec<(PathBuf, String)>,
}

impl Plan {
    pub(crate) fn new(state: &State, network: &Network, bins: &[PathBuf]) -> Result<Self> {
        let [kubernetes, etcd, coredns] = bins else { anyhow::bail!("the cluster's parts are {:?}", tools::CLUSTER) };
        let (pki, conf) = (state.pki(), state.conf());
        let key = |name: &str| pki.join(name).display().to_string();
        let kubeconfig = |user: &str| format!("--kubeconfig={}", conf.join(format!("{user}.kubeconfig")).display());
        let node = network.node();

        let components = vec![
            component(
                "etcd",
                etcd,
                &[
                    "--data-dir=/var/lib/etcd".into(),
                    "--listen-client-urls=http://127.0.0.1:2379".into(),
                    "--advertise-client-urls=http://127.0.0.1:2379".into(),
                    "--listen-peer-urls=http://127.0.0.1:2380".into(),
                    // Its data is thrown away with the cluster.
                    "--unsafe-no-fsync".into(),
                ],
            ),
            component(
                "kube-apiserver",
                kubernetes,
                &[
                    "--etcd-servers=http://127.0.0.1:2379".into(),
                    format!("--service-cluster-ip-range={}", network.services()),
                    "--secure-port=6443".into(),
                    format!("--advertise-address={node}"),
                    format!("--tls-cert-file={}", key("apiserver.crt")),
                    format!("--tls-private-key-file={}", key("apiserver.key")),
                    format!("--client-ca-file={}", key("ca.crt")),
                    format!("--service-account-key-file={}", key("sa.pub")),
                    format!("--service-account-signing-key-file={}", key("sa.key")),
                    "--service-account-issuer=https://kubernetes.default.svc".into(),
                    "--authorization-mode=Node,RBAC".into(),
                    format!("--kubelet-client-certificate={}", key("kubelet-client.crt")),
                    format!("--kubelet-client-key={}", key("kubelet-client.key")),
                    "--kubelet-preferred-address-types=InternalIP".into(),
                    "--allow-privileged=true".into(),
                    "--enable-admission-plugins=NodeRestriction".into(),
                ],
            ),
            Component {
                name: "containerd".to_owned(),
                argv: vec![
                    "/usr/bin/containerd".to_owned(),
                    "--config".to_owned(),
                    conf.join("containerd.toml").display().to_string(),
                ],
            },
            component(
                "kube-controller-manager",
                kubernetes,
                &[
                    kubeconfig("controller-manager"),
                    format!("--service-account-private-key-file={}", key("sa.key")),
                    format!("--root-ca-file={}", key("ca.crt")),
                    "--use-service-account-credentials=true".into(),
                    "--leader-elect=false".into(),
                    format!("--flex-volume-plugin-dir={VOLUME_PLUGINS}"),
                ],
            ),
            component("kube-scheduler", kubernetes, &[kubeconfig("scheduler"), "--leader-elect=false".into()]),
            component(
                "kubelet",
                kubernetes,
                &[
                    format!("--config={}", conf.join("kubelet.json").display()),
                    kubeconfig("kubelet"),
                    format!("--hostname-override={NODE}"),
                    format!("--node-ip={node}"),
                ],
            ),
            component(
                "kube-proxy",
                kubernetes,
                &[
                    kubeconfig("proxy"),
                    format!("--cluster-cidr={}", network.pods()),
                    format!("--hostname-override={NODE}"),
                    "--proxy-mode=iptables".into(),
                    // All pods share one bridge: without it an answer would go straight back, past the address translation.
                    "--masquerade-all".into(),
                    // The machine's connection table is not ours to size.
                    "--conntrack-max-per-core=0".into(),
                ],
            ),
            component("coredns", coredns, &["-conf".into(), conf.join("Corefile").display().to_string()]),
        ];

        let files = vec![
            (conf.join("containerd.toml"), containerd(state)),
            (conf.join("cni/10-bridge.conflist"), cni(network)),
            (conf.join("kubelet.json"), kubelet(state, network)),
            (conf.join("Corefile"), corefile(state, network)),
            (conf.join("resolv.conf"), format!("nameserver {node}\n")),
        ];
        Ok(Self { components, cgroup: state.cgroup(), files })
    }

    /// Whether the cluster in that directory was made from this plan.
    pub(crate) fn made(&self, state: &State) -> bool {
        let own = serde_json::to_vec(self).expect("plain data serialises");
        fs::read(Self::path(state.dir())).is_ok_and(|made| made == own)
    }

    pub(crate) fn write(&self, state: &State) -> Result<()> {
        for dir in [state.logs(), state.conf().join("cni"), state.dir().join("var-lib"), state.dir().join("var-log")] {
            fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        }
        for (path, text) in &self.files {
            fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        fs::write(Self::path(state.dir()), serde_json::to_vec(self)?).context("writing the cluster's plan")
    }

    pub(crate) fn path(state: &Path) -> PathBuf {
        state.join("plan.json")
    }
}

fn component(name: &str, dir: &Path, flags: &[String]) -> Component {
    let program = dir.join(name).display().to_string();
    Component { name: name.to_owned(), argv: std::iter::once(program).chain(flags.iter().cloned()).collect() }
}

fn containerd(state: &State) -> String {
    let (socket, cni) = (state.containerd_socket(), state.conf().join("cni"));
    format!(
        r#"version = 2
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # The machine may lack CAP_SYS_RESOURCE; without this every sandbox would fail there.
  restrict_oom_score_adj = true
  disable_apparmor = true
[plugins."io.containerd.internal.v1.opt"]
  # Its usual place would be made on the machine.
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{cni}"
"#,
        pause = sandbox::IMAGE,
        socket = socket.display(),
        cni = cni.display(),
    )
}

fn cni(network: &Network) -> String {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            "hairpinMode": true,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": network.pods()}]], "routes": [{"dst": "0.0.0.0/0"}]},
        }],
    })
    .to_string()
}

fn kubelet(state: &State, network: &Network) -> String {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"x509": {"clientCAFile": state.pki().join("ca.crt")}, "anonymous": {"enabled": false}, "webhook": {"enabled": true}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": state.pki().join("kubelet.crt"),
        "tlsPrivateKeyFile": state.pki().join("kubelet.key"),
        "containerRuntimeEndpoint": format!("unix://{}", state.containerd_socket().display()),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", state.cgroup()),
        "enforceNodeAllocatable": [],
        "clusterDNS": [network.node()],
        "clusterDomain": "cluster.local",
        "volumePluginDir": VOLUME_PLUGINS,
        "resolvConf": state.conf().join("resolv.conf"),
        "failSwapOn": false,
        // Idle workspaces are many and small.
        "maxPods": 250,
        // There is no registry to pull an image from again, so none is ever collected, full disk or not.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"},
    })
    .to_string()
}

fn corefile(state: &State, network: &Network) -> String {
    format!(
        ".:53 {{\n bind {}\n errors\n kubernetes cluster.local in-addr.arpa {{\n  kubeconfig {} pko\n  pods insecure\n  ttl 1\n }}\n}}\n",
        network.node(),
        state.conf().join("dns.kubeconfig").display()
    )
}
