package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// etcdData is the folder with etcd's data.
const etcdData = "etcd"

// Backup is a copy of etcd's data. It ends with the control plane.
type Backup string

// BackUp stops the API server and etcd, copies etcd's data, and starts both
// again.
func (c *ControlPlane) BackUp(ctx context.Context) (Backup, error) {
	backup := c.folder.path("etcd-backup")
	err := c.whileStopped(ctx, func() error {
		return os.CopyFS(backup, os.DirFS(c.folder.path(etcdData)))
	})
	if err != nil {
		return "", fmt.Errorf("copying the data of etcd: %w", err)
	}
	return Backup(backup), nil
}

// Restore puts a copy of etcd's data back, with the API server and etcd stopped,
// as the documentation of etcd asks for.
func (c *ControlPlane) Restore(ctx context.Context, b Backup) error {
	err := c.whileStopped(ctx, func() error {
		data := c.folder.path(etcdData)
		return errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(string(b))))
	})
	if err != nil {
		return fmt.Errorf("restoring the data of etcd: %w", err)
	}
	return nil
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
