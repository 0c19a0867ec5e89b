package cluster

import (
	"context"
	"errors"
	"os"
)

// etcdData is the folder with etcd's data.
const etcdData = "etcd"

// BackUp stops the API server and etcd, copies etcd's data into a folder that ends with
// the control plane, and starts both again.
func (c *ControlPlane) BackUp(ctx context.Context) (folder string, err error) {
	folder = c.folder.path("etcd-backup")
	return folder, c.whileStopped(ctx, func() error { return os.CopyFS(folder, os.DirFS(c.folder.path(etcdData))) })
}

// Restore puts a copy of etcd's data back, with the API server and etcd stopped,
// as the documentation of etcd asks for.
func (c *ControlPlane) Restore(ctx context.Context, backup string) error {
	return c.whileStopped(ctx, func() error {
		data := c.folder.path(etcdData)
		return errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(backup)))
	})
}

func (c *ControlPlane) whileStopped(ctx context.Context, do func() error) error {
	if err := errors.Join(c.APIServer.Stop(), c.Etcd.Stop()); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if err := c.Etcd.Start(ctx); err != nil {
		return err
	}
	return c.APIServer.Start(ctx)
}
