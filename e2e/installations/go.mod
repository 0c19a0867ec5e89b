module github.com/webhook-auditor/webhook-auditor/e2e/installations

go 1.26.0
