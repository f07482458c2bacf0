// Command pulumi-resource-pkotest is a Pulumi provider for tests. Its cloud is
// a directory; see cloud.go. Its one resource is in thing.go.
package main

import (
	"context"
	"fmt"
	"os"

	p "github.com/pulumi/pulumi-go-provider"
	"github.com/pulumi/pulumi-go-provider/infer"
	host "github.com/pulumi/pulumi/pkg/v3/resource/provider"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/property"
	rpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

const (
	name    = "pkotest"
	version = "0.1.0"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	provider, err := infer.NewProviderBuilder().
		WithDisplayName(name).
		WithNamespace(name).
		WithResources(infer.Resource(Thing{})).
		WithFunctions(infer.Function(Echo{})).
		Build()
	if err != nil {
		return err
	}
	serve := p.RawServer(name, version, tellOperations(provider))
	return host.MainContext(ctx, name, func(client *host.HostClient) (rpc.ResourceProviderServer, error) {
		server, err := serve(client)
		return quiet{server}, err
	})
}

// quiet leaves out of the checked configuration what the framework puts there
// for itself. Newer engines throw it away and warn about it on every run, and
// a test that counts warnings would count this one.
type quiet struct{ rpc.ResourceProviderServer }

func (q quiet) CheckConfig(ctx context.Context, req *rpc.CheckRequest) (*rpc.CheckResponse, error) {
	resp, err := q.ResourceProviderServer.CheckConfig(ctx, req)
	if err == nil {
		delete(resp.GetInputs().GetFields(), "__internal")
	}
	return resp, err
}

// operation is what infer keeps from a resource: the URN, and which of the
// properties are secret.
type operation struct {
	owner  ownerOf
	secret map[string]bool
}

type operationKey struct{}

func operationIn(ctx context.Context) operation {
	o, _ := ctx.Value(operationKey{}).(operation)
	return o
}

// tellOperations hands the operation on in the context.
func tellOperations(provider p.Provider) p.Provider {
	told := provider
	told.Create = func(ctx context.Context, req p.CreateRequest) (p.CreateResponse, error) {
		return provider.Create(withOperation(ctx, req.Urn, req.Properties), req)
	}
	told.Read = func(ctx context.Context, req p.ReadRequest) (p.ReadResponse, error) {
		return provider.Read(withOperation(ctx, req.Urn, req.Properties), req)
	}
	told.Update = func(ctx context.Context, req p.UpdateRequest) (p.UpdateResponse, error) {
		return provider.Update(withOperation(ctx, req.Urn, req.Inputs), req)
	}
	told.Delete = func(ctx context.Context, req p.DeleteRequest) error {
		return provider.Delete(withOperation(ctx, req.Urn, req.Properties), req)
	}
	return told
}

func withOperation(ctx context.Context, urn resource.URN, properties property.Map) context.Context {
	return context.WithValue(ctx, operationKey{}, operation{
		owner: ownerOf{
			Name:    urn.Name(),
			Stack:   urn.Stack().String(),
			Project: urn.Project().String(),
		},
		secret: secretNames(properties),
	})
}

// secretNames always has the input "secret" in it, whatever Pulumi says: what
// is lost here ends up in a file in clear.
func secretNames(properties property.Map) map[string]bool {
	names := map[string]bool{"secret": true}
	for key, value := range properties.All {
		if value.HasSecrets() {
			names[key] = true
		}
	}
	return names
}

// Echo is the function pkotest:index:echo.
type Echo struct{}

// EchoArgs are both its arguments and its result.
type EchoArgs struct {
	Value string `pulumi:"value"`
}

func (Echo) Invoke(_ context.Context, req infer.FunctionRequest[EchoArgs]) (
	infer.FunctionResponse[EchoArgs], error,
) {
	return infer.FunctionResponse[EchoArgs]{Output: req.Input}, nil
}
