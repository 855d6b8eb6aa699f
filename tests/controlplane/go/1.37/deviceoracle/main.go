// Answers questions about device selectors and allocations with Kubernetes' own code: one JSON object a line on
// standard input, one a line on standard output. Tests compare our answers with these.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type device struct {
	Driver                   string
	AllowMultipleAllocations *bool
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity
}

type question struct {
	// Cel is an expression; it is evaluated for each of Devices.
	Cel     *string
	Devices []device
	// Otherwise the claims are allocated on the node.
	Node      *v1.Node
	Slices    []*resourceapi.ResourceSlice
	Classes   []*resourceapi.DeviceClass
	Claims    []*resourceapi.ResourceClaim
	Allocated []*resourceapi.ResourceClaim
}

type answer struct {
	Compile     string                         `json:"compile,omitempty"`
	Matches     []any                          `json:"matches,omitempty"`
	Allocations []resourceapi.AllocationResult `json:"allocations"`
	// Error ends the attempt of the pod on all nodes, Refused on this one.
	Error   string `json:"error,omitempty"`
	Refused string `json:"refused,omitempty"`
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("deviceclass.resource.k8s.io %q not found", name)
}

// What Kubernetes 1.37 has switched on.
var features = structured.Features{
	AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true,
	FractionalCapacityRange: true, PartitionableDevices: true, PrioritizedList: true,
}

func selects(ask question) answer {
	compiled := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true}).CompileCELExpression(*ask.Cel, cel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return answer{Compile: compiled.Error.Error()}
	}
	var out answer
	for _, each := range ask.Devices {
		matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device{
			Driver: each.Driver, AllowMultipleAllocations: each.AllowMultipleAllocations, Attributes: each.Attributes, Capacity: each.Capacity,
		})
		if err != nil {
			out.Matches = append(out.Matches, err.Error())
		} else {
			out.Matches = append(out.Matches, matches)
		}
	}
	return out
}

func inUse(claims []*resourceapi.ResourceClaim) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if result.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
			consumed := make(map[resourceapi.QualifiedName]resource.Quantity)
			for name, amount := range result.ConsumedCapacity {
				consumed[name] = amount
			}
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, consumed))
		}
	}
	return state
}

func allocates(ask question) answer {
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, features, inUse(ask.Allocated), classes(ask.Classes), ask.Slices,
		cel.NewCache(100, cel.Features{EnableConsumableCapacity: true}))
	if err != nil {
		return answer{Error: err.Error()}
	}
	found, err := allocator.Allocate(ctx, ask.Node, ask.Claims)
	if errors.Is(err, structured.ErrFailedAllocationOnNode) {
		return answer{Refused: err.Error()}
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Allocations: found}
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return
		}
		var ask question
		var reply answer
		if err := json.Unmarshal(line, &ask); err != nil {
			reply = answer{Error: "the question is no JSON: " + err.Error()}
		} else if ask.Cel != nil {
			reply = selects(ask)
		} else {
			reply = allocates(ask)
		}
		if err := out.Encode(reply); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
