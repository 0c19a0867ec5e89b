import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  plugins: [react()],
  define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
  build: { outDir: process.env.PAGE ?? '../bin/screenshots/page', emptyOutDir: true, chunkSizeWarningLimit: 20000, sourcemap: false, reportCompressedSize: false },
});
