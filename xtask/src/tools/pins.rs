//! Every real part and its version: the one place to change one.

/// Programs built by name, with the ordinary client of their registry.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) recipe: Recipe,
    /// Each binary that the part gives, with the package it is built from.
    pub(crate) binaries: &'static [(&'static str, &'static str)],
    /// `-X` settings of the linker; `{version}` stands for the version.
    pub(crate) stamps: &'static [&'static str],
    /// What it is for, shown by `cargo xtask tools --list`.
    pub(crate) purpose: &'static str,
}

#[derive(Debug)]
pub(crate) enum Recipe {
    /// A module that requires these others: path and version each, `{version}` standing for the part's own.
    Modules(&'static [&'static str]),
    /// As `Modules`, with a `main.go` of ours from `xtask/parts/<name>`.
    OwnMain(&'static [&'static str]),
    /// A whole module of ours in `xtask/parts/<name>`, go.mod and go.sum included.
    OwnModule,
    /// k8s.io/kubernetes, whose staging modules are replaced by their published twins `v0.<minor>.<patch>`.
    Kubernetes,
    /// A Rust crate with its own lock file.
    Crate,
    /// A module whose own `replace` lines and go.sum must be repeated, with directories of it that the part gives
    /// besides its binaries: the name each gets, and where it is in the module.
    Repeated { module: &'static str, directories: &'static [(&'static str, &'static str)] },
}

const KUBERNETES_STAMPS: &[&str] = &[
    "k8s.io/component-base/version.gitVersion={version}",
    "k8s.io/component-base/version.gitMajor=1",
    "k8s.io/component-base/version.gitMinor=34",
];

const PULUMI_STAMP: &[&str] = &["github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={version}"];
/// Not every version of the CLI is in Go's checksum database, and not every one that is compiles; those below do.
const PULUMI_PACKAGE: &str = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi";

pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "kubernetes",
        version: "v1.34.4",
        recipe: Recipe::Kubernetes,
        binaries: &[
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
            ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
            ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
            ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        ],
        stamps: KUBERNETES_STAMPS,
        purpose: "the cluster",
    },
    Part {
        name: "etcd",
        version: "v3.6.5",
        recipe: Recipe::OwnMain(&["go.etcd.io/etcd/server/v3 {version}"]),
        binaries: &[("etcd", ".")],
        stamps: &[],
        purpose: "the cluster",
    },
    Part {
        name: "coredns",
        version: "v1.12.4",
        recipe: Recipe::OwnMain(&["github.com/coredns/coredns {version}"]),
        binaries: &[("coredns", ".")],
        stamps: &[],
        purpose: "the cluster",
    },
    Part {
        name: "pulumi",
        version: "v3.259.0",
        recipe: Recipe::Modules(&["github.com/pulumi/pulumi/pkg/v3 {version}"]),
        binaries: &[("pulumi", PULUMI_PACKAGE)],
        stamps: PULUMI_STAMP,
        purpose: "the CLI that workspaces run",
    },
    Part {
        name: "pulumi-yaml",
        version: "v1.30.0",
        recipe: Recipe::Modules(&[
            "github.com/pulumi/pulumi-yaml {version}",
            "github.com/pulumi/pulumi/pkg/v3 v3.225.0",
            "github.com/pulumi/pulumi/sdk/v3 v3.225.0",
        ]),
        binaries: &[("pulumi-language-yaml", "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml")],
        stamps: &["github.com/pulumi/pulumi-yaml/pkg/version.Version={version}"],
        purpose: "the language of the test programs",
    },
    Part {
        name: "provider",
        version: "v0.1.0",
        recipe: Recipe::OwnModule,
        binaries: &[("pulumi-resource-pkotest", ".")],
        stamps: &[],
        purpose: "resources that are slow, fail, drift or hold secrets, with a ledger",
    },
    Part {
        name: "cargo-deny",
        version: "0.20.2",
        recipe: Recipe::Crate,
        binaries: &[("cargo-deny", "cargo-deny")],
        stamps: &[],
        purpose: "licences and origins of dependencies",
    },
    Part {
        name: "helm",
        version: "v3.22.0",
        recipe: Recipe::Modules(&["helm.sh/helm/v3 {version}"]),
        binaries: &[("helm", "helm.sh/helm/v3/cmd/helm")],
        stamps: &["helm.sh/helm/v3/internal/version.version={version}"],
        purpose: "tests of the chart",
    },
    Part {
        name: "source-controller",
        version: "v1.7.3",
        recipe: Recipe::Repeated {
            module: "github.com/fluxcd/source-controller",
            directories: &[("crds", "config/crd/bases")],
        },
        binaries: &[("source-controller", "github.com/fluxcd/source-controller")],
        stamps: &[],
        purpose: "Flux sources",
    },
    Part {
        name: "registry",
        version: "v3.1.2",
        recipe: Recipe::OwnMain(&["github.com/distribution/distribution/v3 {version}"]),
        binaries: &[("registry", ".")],
        stamps: &[],
        purpose: "Flux OCIRepository sources",
    },
    Part {
        name: "gofakes3",
        version: "v1.2.0",
        recipe: Recipe::Modules(&["github.com/johannesboyne/gofakes3 {version}"]),
        binaries: &[("gofakes3", "github.com/johannesboyne/gofakes3/cmd/gofakes3")],
        stamps: &[],
        purpose: "S3 state backends and Flux Bucket sources",
    },
    Part {
        name: "grpcurl",
        version: "v1.9.3",
        recipe: Recipe::Modules(&["github.com/fullstorydev/grpcurl {version}"]),
        binaries: &[("grpcurl", "github.com/fullstorydev/grpcurl/cmd/grpcurl")],
        stamps: &[],
        purpose: "speaking to an agent as a foreign client does",
    },
    Part {
        name: "pulumi-3.200",
        version: "v3.200.0",
        recipe: Recipe::Modules(&["github.com/pulumi/pulumi/pkg/v3 {version}"]),
        binaries: &[("pulumi", PULUMI_PACKAGE)],
        stamps: PULUMI_STAMP,
        purpose: "a CLI without structured configuration, which came with 3.202",
    },
    Part {
        name: "pulumi-3.204",
        version: "v3.204.0",
        recipe: Recipe::Modules(&["github.com/pulumi/pulumi/pkg/v3 {version}"]),
        binaries: &[("pulumi", PULUMI_PACKAGE)],
        stamps: PULUMI_STAMP,
        purpose: "a CLI between that and 3.205, after which event logs changed",
    },
];

/// Debian packages by what needs them; their versions are the distribution's.
pub(crate) struct Packages {
    pub(crate) name: &'static str,
    pub(crate) packages: &'static [&'static str],
}

/// What the one-node cluster takes from Debian.
pub(crate) const CLUSTER_PACKAGES: Packages = Packages {
    name: "packages-cluster",
    packages: &[
        "containerd",
        "runc",
        "containernetworking-plugins",
        "conntrack",
        "iptables",
        "iproute2",
        "util-linux",
        "busybox-static",
    ],
};

/// What building images takes from Debian: a C compiler for musl, a shell for the stand-in, certificates.
pub(crate) const IMAGE_PACKAGES: Packages =
    Packages { name: "packages-image", packages: &["gcc", "musl-tools", "busybox-static", "ca-certificates"] };

/// Real servers for tests of sources.
pub(crate) const SOURCE_PACKAGES: Packages = Packages { name: "packages-source", packages: &["git", "openssh-server"] };

pub(crate) const PACKAGES: &[&Packages] = &[&CLUSTER_PACKAGES, &IMAGE_PACKAGES, &SOURCE_PACKAGES];
